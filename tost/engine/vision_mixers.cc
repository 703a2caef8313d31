#include <algorithm>
#include <cmath>
#include <memory>

#include "tost/base/checked.h"
#include "tost/base/text.h"
#include "tost/engine/mixers.h"
#include "tost/engine/threads.h"
#include "tost/engine/vision_weights.h"
#include "tost/kernels/attend_rows.h"
#include "tost/kernels/block_cache.h"

namespace tost {
namespace {

constexpr int64_t kMixerRows = 64;  // of a product, on one thread

struct MixerBlock {
  PackedLinear in, out;
  PackedLinear router;  // of means
  MeansWeights means;
};

MixerBlock softmax_block(const VisionConfig& c, WeightSource& source, const std::string& name,
                         Packing packing) {
  return {packed_map(source, name + "qkv", 3 * c.dim, c.dim, packing, c.qkv_bias),
          packed_map(source, name + "proj", c.dim, c.dim, packing)};
}

MixerBlock means_block(const VisionConfig& c, WeightSource& source, const std::string& name,
                       Packing packing) {
  MixerBlock b{packed_map(source, name + "c_attn", 3 * c.dim, c.dim, packing, c.qkv_bias),
               packed_map(source, name + "c_proj", c.dim, c.dim, packing, c.qkv_bias),
               packed_map(source, name + "router", c.heads, c.dim, packing, /*bias=*/false),
               {.heads = c.heads, .dim = c.dim, .from_end = c.heads / 2, .gate = true}};
  b.means.router_bias = source.values(name + "router.bias", {c.heads}).clone();
  b.means.temp = source.values(name + "temp", {c.heads}).clone();
  b.means.scale = source.values(name + "means.scale", {c.dim}).clone();
  b.means.decay = forgetting_rates(source.values(name + "rates.decay", {c.heads}), c.heads);
  return b;
}

// y [rows, outputs] = x Wᵀ + b, a tile of rows at a time.
void multiply(const PackedLinear& map, const float* x, int64_t rows, float* y) {
  const bool narrow = map.packing() == Packing::kBfloat16;
  const int64_t width = map.inputs(), outputs = map.outputs();
  parallel_tasks(divide_up(rows, kMixerRows), [&](int64_t begin, int64_t end) {
    const ScratchBlock scratch{size_t(map.scratch_bytes(kMixerRows))};
    std::vector<uint16_t> rounded(narrow ? size_t(kMixerRows * width) : 0);
    for (int64_t first = begin * kMixerRows; first < std::min(rows, end * kMixerRows);
         first += kMixerRows) {
      const int64_t count = std::min(kMixerRows, rows - first);
      const float* from = x + first * width;
      if (narrow) kernels::round_rows(from, count, width, rounded.data());
      map.run({.rows = count,
               .data = narrow ? static_cast<const void*>(rounded.data()) : from,
               .stride = width},
              {.data = y + first * outputs, .stride = outputs}, scratch.data());
    }
  });
}

// Tokens [B, M, C] after a block's first map, parts [B M, 3 C], to those before its last one.
void attend(int64_t heads, const Array& x, const Array& parts, float* mixed) {
  const int64_t tokens = x.size(1), dim = x.size(2), width = dim / heads, row = 3 * dim;
  parallel_tasks(x.size(0) * heads, [&](int64_t begin, int64_t end) {
    std::vector<float> weights(size_t(kernels::kAttendTogether * tokens));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / heads * tokens, column = i % heads * width;
      const float* q = parts.data() + first * row + column;
      kernels::AttendRowsArgs a{tokens, width, kernels::kAttendTogether, q + dim, row};
      a.values = q + 2 * dim;
      a.values_stride = a.query_stride = row;
      a.out_stride = dim;
      a.scale = 1 / std::sqrt(float(width));
      a.weights = weights.data();
      for (int64_t t = 0; t < tokens; t += a.queries) {
        a.queries = std::min(a.queries, tokens - t);
        a.query = q + t * row;
        a.out = mixed + (first + t) * dim + column;
        kernels::attend_rows(a);
      }
    }
  });
}

void mean(const MixerBlock& block, const Array& x, const Array& parts, float* mixed,
          SeenMixer* seen) {
  const int64_t batch = x.size(0), tokens = x.size(1), rows = batch * tokens;
  Array pi = Array::empty({rows, block.means.heads});
  multiply(block.router, x.data(), rows, pi.mutable_data());
  const ScratchBlock workspace(
      size_t(mix_means_workspace(block.means, batch, tokens, /*stateful=*/false)));
  mix_means(block.means,
            {.batch = batch,
             .tokens = tokens,
             .parts = parts.data(),
             .pi = pi.mutable_data(),
             .y = mixed},
            workspace.data(), engine_parallel);
  if (seen == nullptr) return;
  const int64_t dim = x.size(2), heads = block.means.heads;
  seen->w = Array({rows, dim}, TorchDtype::kFloat32, parts.owner(), {3 * dim, 1}).contiguous();
  seen->pi = Array({heads, rows}, TorchDtype::kFloat32, pi.owner(), {1, heads}).contiguous();
  for (int64_t i = 0; i < pi.numel(); ++i) seen->pi.mutable_data()[i] /= float(heads);
}

}  // namespace

bool engine_has(const VisionConfig& c) {
  return c.architecture == "transformer" && c.mlp == "gelu" &&
         (engine_mixer(c) != EngineMixer::kModule || c.mixer == "means" || c.mixer == "softmax");
}

VisionMixer engine_mixers(const VisionConfig& config, WeightSource& source, Packing products) {
  const bool softmax = config.mixer == "softmax";
  if (!softmax && config.mixer != "means") return {};
  const bool narrow = products != Packing::kFloat32 && multiplies_as_packed(Packing::kBfloat16);
  const auto blocks = std::make_shared<std::vector<MixerBlock>>();
  for (int64_t i = 0; i < config.depth; ++i) {
    blocks->push_back(
        (softmax ? softmax_block : means_block)(config, source, cat("blocks.", i, ".attn."),
                                                narrow ? Packing::kBfloat16 : Packing::kFloat32));
  }
  return [blocks, softmax, heads = config.heads](int64_t index, const Array& x, float* y,
                                                 SeenMixer* seen) {
    const MixerBlock& block = (*blocks)[size_t(index)];
    const int64_t rows = x.size(0) * x.size(1), dim = x.size(2);
    Array parts = Array::empty({rows, 3 * dim}), mixed = Array::empty({rows, dim});
    multiply(block.in, x.data(), rows, parts.mutable_data());
    if (softmax) {
      attend(heads, x, parts, mixed.mutable_data());
    } else {
      mean(block, x, parts, mixed.mutable_data(), seen);
    }
    multiply(block.out, mixed.data(), rows, y);
  };
}

}  // namespace tost
