#include "tost/kernels/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tost/base/checked.h"

namespace tost::kernels {
namespace {

// A block of 64 tokens of 768 float32 channels, 196 KB, is enough work and makes sums short.
constexpr int64_t kBlockTokens = 64;
constexpr int64_t kChunkChannels = 256;
constexpr int64_t kSharedCacheBytes = 24 << 20;  // of a last-level cache, for the rows of a call
constexpr int64_t kLightWork = 512 << 10;        // floats; 0.1 ms
constexpr float kSmallestNorm = 1e-12f;

}  // namespace

TokenCut::TokenCut(int64_t tokens) : tokens(tokens) {
  // Blocks of nearly equal length: 197 tokens become 56 + 56 + 56 + 29, not 64 + 64 + 64 + 5.
  const int64_t wanted = std::max<int64_t>(1, divide_up(tokens, kBlockTokens));
  const int64_t even = divide_up(std::max<int64_t>(1, tokens), wanted);
  block_tokens = divide_up(even, kTokenGroup) * kTokenGroup;
  blocks = std::max<int64_t>(1, divide_up(tokens, block_tokens));
}

CallCut::CallCut(const TssaShape& shape) : whole(shape.tokens), blocks(whole.blocks) {
  chunk_heads = std::clamp<int64_t>(kChunkChannels / shape.width, 1, shape.heads);
  chunks = divide_up(shape.heads, chunk_heads);
  light_reductions = blocks * shape.channels() <= kLightWork;
  scratch = divide_up(4 * shape.heads * kTokenGroup, 16) * 16;
}

SamplePlan plan_samples(int64_t batch, int64_t sample_bytes, int threads) {
  const int64_t fitting = kSharedCacheBytes / std::max<int64_t>(1, sample_bytes);
  const bool all_busy = batch % threads == 0 || batch >= 4 * threads;
  return {all_busy && (threads == 1 || fitting >= threads), std::max<int64_t>(1, fitting)};
}

void sum_blocks(const float* partial, int64_t blocks, int64_t stride, int64_t begin, int64_t end,
                float* out) {
  constexpr int64_t kTile = 64;
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t count = std::min(kTile, end - first);
    double total[kTile] = {};
    for (int64_t block = 0; block < blocks; ++block) {
      const float* p = partial + block * stride + first;
      for (int64_t i = 0; i < count; ++i) total[i] += p[i];
    }
    for (int64_t i = 0; i < count; ++i) out[first + i] = static_cast<float>(total[i]);
  }
}

void clear_tokens(const Tokens& t, DType dtype, int64_t sample, const PaddingRange& range,
                  int64_t channels) {
  const auto bytes = static_cast<size_t>(channels * element_size(dtype));
  for (int64_t i = 0; i < range.count; ++i) {
    std::memset(row(t, dtype, sample, range.first + i), 0, bytes);
  }
}

float inverse_norm(float energy) {
  const float norm = std::sqrt(energy);
  return 1.0f / (norm < kSmallestNorm ? kSmallestNorm : norm);
}

bool norm_is_clamped(float energy) {
  return std::sqrt(energy) < kSmallestNorm;
}

}  // namespace tost::kernels
