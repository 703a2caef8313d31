// How a causal call is spread over threads. Two schedules, one result: for a head, the passes do
// the same arithmetic in the same order, whatever other threads do.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/causal_passes.h"

namespace tost::kernels {

// By sample: every thread takes whole samples, reads each row once from memory and writes it once.
// By window: where there are too few samples, threads take heads; only the softmax joins heads, so
// the tokens are taken a window at a time, small enough for its rows to be in cache when they are
// used again, and every thread works on its heads between two softmaxes.
struct CausalPlan {
  CausalPlan(const TssaShape& shape, int64_t sample_window, int threads);

  bool by_sample;
  bool alone;      // too little work to wake other threads for
  int64_t slots;   // workspaces: one a thread by sample, one a sample by window
  int64_t window;  // tokens; by sample `sample_window`, by window a multiple of the chunk
};

// A range of heads of the tokens [begin, end) of a sample, worked on in a slot.
struct CausalPart {
  int64_t sample;
  int64_t slot;
  int64_t begin;
  int64_t end;
  int64_t head;
  int64_t heads;
};

// Calls one(sample, slot) for every sample, the samples of a slot one after another.
void for_each_sample(const CausalPlan& plan, int64_t batch, ParallelFor parallel,
                     function_ref<void(int64_t sample, int64_t slot)> one);

// Calls one(part) for ranges of heads that cover all heads of all samples.
void for_each_head_range(const TssaShape& shape, ParallelFor parallel,
                         function_ref<void(const CausalPart&)> one);

// Calls one(part) for ranges of kTokenRange tokens of [begin, end), all heads.
inline constexpr int64_t kTokenRange = 256;  // of a softmax: 10 us
void for_each_token_range(const TssaShape& shape, int64_t begin, int64_t end, ParallelFor parallel,
                          function_ref<void(const CausalPart&)> one);

}  // namespace tost::kernels
