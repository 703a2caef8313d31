#include "tost/kernels/causal_schedule.h"

#include <algorithm>

namespace tost::kernels {
namespace {

constexpr int64_t kLightWork = 64 << 10;      // floats of w; 30 us
constexpr int64_t kWindowFloats = 512 << 10;  // of w, all samples: 2 MB, in the L2 caches

}  // namespace

CausalPlan::CausalPlan(const TssaShape& shape, int64_t sample_window, int threads) {
  const int64_t row = std::max<int64_t>(1, shape.batch * shape.channels());
  alone = threads == 1 || row * shape.tokens <= kLightWork;
  by_sample = alone || shape.batch % threads == 0 || shape.batch >= 4 * threads;
  slots = alone ? 1 : by_sample ? std::min<int64_t>(threads, shape.batch) : shape.batch;
  const int64_t chunks = std::clamp<int64_t>(kWindowFloats / (row * kCausalChunk), 1,
                                             std::max<int64_t>(1, causal_chunks(shape.tokens)));
  window = by_sample ? sample_window : chunks * kCausalChunk;
}

void for_each_sample(const CausalPlan& plan, int64_t batch, ParallelFor parallel,
                     function_ref<void(int64_t, int64_t)> one) {
  const auto slots = [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      const int64_t last = batch * (slot + 1) / plan.slots;
      for (int64_t sample = batch * slot / plan.slots; sample < last; ++sample) one(sample, slot);
    }
  };
  plan.alone ? slots(0, plan.slots) : parallel(plan.slots, slots);
}

void for_each_head_range(const TssaShape& shape, ParallelFor parallel,
                         function_ref<void(const CausalPart&)> one) {
  parallel(shape.batch * shape.heads, [&](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t sample = first / shape.heads, head = first % shape.heads;
      const int64_t heads = std::min(shape.heads - head, last - first);
      one({sample, sample, 0, shape.tokens, head, heads});
      first += heads;
    }
  });
}

void for_each_token_range(const TssaShape& shape, int64_t begin, int64_t end, ParallelFor parallel,
                          function_ref<void(const CausalPart&)> one) {
  const int64_t ranges = (end - begin + kTokenRange - 1) / kTokenRange;
  parallel(shape.batch * ranges, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t sample = i / ranges, from = begin + i % ranges * kTokenRange;
      one({sample, sample, from, std::min(end, from + kTokenRange), 0, shape.heads});
    }
  });
}

}  // namespace tost::kernels
