// The vectorised passes of causal TSSA over some tokens of one chunk of one sample, for a range of
// heads. The schedules that call them are tssa_causal_forward.cc and tssa_causal_backward.cc, the
// passes in causal_forward-inl.h and causal_backward-inl.h, compiled once per instruction set by
// causal_passes.cc.
#pragma once

#include <cstdint>

#include "tost/kernels/tssa_causal.h"

namespace tost::kernels {

inline constexpr float kSmallestEnergy = 1e-12f;

// What a pass sees. Pointers stand at the first token and the first head of the range; channel
// arrays are [C], head arrays [H]. Rows of [H, tokens] arrays are `stride` apart. A pass uses the
// fields its comment names.
struct CausalBlock {
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t width = 0;
  const void* w = nullptr;
  int64_t w_stride = 0;
  const void* g = nullptr;  // grad_y
  int64_t g_stride = 0;
  void* out = nullptr;  // y or grad_w
  int64_t out_stride = 0;
  bool stream = false;  // whether out is too large to be worth a place in the caches
  const float* temp = nullptr;
  const float* bias = nullptr;  // of the tokens that have one
  int64_t bias_stride = 0;
  int64_t bias_tokens = 0;  // how many of the tokens have one
  // The sums before the chunk, and the float32 rests since, updated.
  const float* base = nullptr;
  float* rest = nullptr;
  double* pi_sum = nullptr;  // [H]: forward, the sum of Pi before the tokens, updated
  // Memberships and their logits or gradients.
  float* logit = nullptr;
  int64_t logit_stride = 0;
  float* pi_out = nullptr;
  const float* pi = nullptr;
  const float* grad_pi = nullptr;  // may be null
  int64_t pi_stride = 0;
  float* scratch = nullptr;  // forward: [H, kTokenGroup]
  // Backward.
  const float* energy_base = nullptr;  // sums before the chunk
  const float* moment_base = nullptr;
  const double* pi_base = nullptr;  // [H]
  double* weight_pull = nullptr;    // [H]: reverse sum of dS S / N', updated
  double* grad_temp = nullptr;      // [H]: updated
  float* direct = nullptr;          // [tokens, C]: the part of grad_w that needs no dlogit
  int64_t direct_stride = 0;
};

struct CausalPasses {
  // logit = sum_i q / E; base and rest are those of q.
  void (*logits)(const CausalBlock&);
  // pi_out from logit, bias and temp, all heads.
  void (*softmax)(const CausalBlock&);
  // out = y from pi; base and rest are those of Pi q.
  void (*output)(const CausalBlock&);
  // logit = dPi and direct, from pi; base and rest are those of dS / N'. A whole chunk.
  void (*grad_membership)(const CausalBlock&);
  // logit = dlogit from dPi, all heads.
  void (*grad_softmax)(const CausalBlock&);
  // out = grad_w from dlogit and direct; base and rest are those of dlogit q / E^2. A whole chunk.
  void (*grad_input)(const CausalBlock&);
  // total += rest, base = total, rest = 0 over n numbers.
  void (*fold)(double* total, float* rest, float* base, int64_t n);
  // Makes stores that went past the caches visible to other threads.
  void (*flush)();
};

// For the instruction set in use (isa.h).
const CausalPasses& causal_passes(DType dtype);

}  // namespace tost::kernels
