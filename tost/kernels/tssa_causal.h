// Causal TSSA on raw memory, forward and backward, for sequences, chunks and single tokens, with a
// state that holds the sums over earlier tokens.
//
// The definition, from the official language code of arXiv 2412.17810 without dropout, for a sample
// w [T, H, P], with q = w^2 and sums over all tokens u <= t, also those before the call:
//   E_ki  = max(sum_u q_uki, 1e-12)
//   a_tk  = sum_i q_tki / E_ki + P b_k(position + t)   membership logit; b is 0 past its last entry
//   Pi_t. = softmax over heads of (a_tk temp_k)
//   N_k   = sum_u Pi_uk,  M_ki = sum_u Pi_uk q_uki
//   y     = -(w Pi D),  D = 1 / (1 + M / (N + 1e-8))
//
// Layout and storage are those of tssa.h. Arithmetic is float32. A sum is a float64 total before
// the chunk (kCausalChunk tokens, counted from the first token of the call) plus a float32 sum
// within the chunk, so the error does not grow. The state is float64.
//
// No bit of the results depends on the number of threads or on later tokens. Sequences, chunks and
// single steps agree up to rounding, and so do instruction sets (isa.h).
//
// E and M are at most 8e37, so |w| sqrt(T) may reach 9e18. A NaN in a token reaches this and all
// later tokens of the sample.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

inline constexpr int64_t kCausalChunk = 64;

// The number of chunks in a call of `tokens` tokens.
inline int64_t causal_chunks(int64_t tokens) {
  return (tokens + kCausalChunk - 1) / kCausalChunk;
}

// The number of values in a sample's state: sums of q [C], sums of Pi q [C], sums of Pi [H].
inline int64_t causal_state_size(const TssaShape& shape) {
  return 2 * shape.channels() + shape.heads;
}

struct CausalBias {
  const float* data = nullptr;  // [H, length]
  int64_t length = 0;           // may be 0
  int64_t position = 0;  // tokens before the first of the call; it has bias data[:, position]

  // The number of a call's `tokens` that have a bias.
  int64_t covered(int64_t tokens) const {
    const int64_t left = position < length ? length - position : 0;
    return left < tokens ? left : tokens;
  }
};

struct CausalForwardArgs {
  TssaShape shape;                // tokens are those of this call: 1 for a step
  DType dtype = DType::kFloat32;  // of w and y
  ConstTokens w;
  const float* temp = nullptr;  // [H]
  CausalBias bias;
  const double* state = nullptr;  // [B, 2 C + H], before the first token; null means zeros
  Tokens y;                       // must not overlap w
  // Optional results, contiguous.
  double* next_state = nullptr;  // [B, 2 C + H], after the last token; may be `state` itself
  float* pi = nullptr;           // [B, H, T]
  // The sums before each chunk, for backward: of q and Pi q [B, chunks, 2 C], of Pi [B, chunks, H].
  float* carry = nullptr;
  double* pi_carry = nullptr;
};

struct CausalBackwardArgs {
  TssaShape shape;
  DType dtype = DType::kFloat32;  // of w, grad_y and grad_w
  ConstTokens w;
  ConstTokens grad_y;
  const float* grad_pi = nullptr;  // [B, H, T], optional
  const float* temp = nullptr;     // [H]
  CausalBias bias;
  // The forward's results.
  const float* pi = nullptr;         // [B, H, T]
  const float* carry = nullptr;      // [B, chunks, 2 C]
  const double* pi_carry = nullptr;  // [B, chunks, H]
  // Results.
  Tokens grad_w;               // must not overlap w or grad_y
  float* grad_temp = nullptr;  // [H]
  float* grad_bias = nullptr;  // [H, bias.length]
};

// The bytes of workspace: about 40 C (backward 300 C) for each thread, and some megabytes if
// threads share sequences. Backward also needs 4 H for every token with a bias.
int64_t causal_forward_workspace(const CausalForwardArgs& args, int threads);
int64_t causal_backward_workspace(const CausalBackwardArgs& args, int threads);

// `workspace` is 64-byte aligned; `threads` is the number that `parallel` will use and for which
// the workspace was sized; it changes the schedule, not the result. Neither call allocates; they
// throw only a usage Error for a wrong TOST_ISA (isa.h). At most H threads share a sequence.
void causal_forward(const CausalForwardArgs& args, void* workspace, ParallelFor parallel,
                    int threads);

// Computes gradients by the closed form, with g = grad_y, N' = N + 1e-8, S = M / N', and reverse
// sums over the tokens u >= t:
//   dS      = D^2 g w Pi
//   dPi_t   = sum_i (q_t sum_u dS_u / N'_u - g w D) - sum_u sum_i dS_u S_u / N'_u + grad_pi
//   dlogit  = Pi (dPi - sum_k Pi dPi),  da = temp dlogit,  dtemp = sum_t dlogit a,  db_t = P da_t
//   dw_t    = Pi (2 w sum_u dS_u / N'_u - g D) + 2 w (da / E - sum_u da_u q_u / E_u^2)
// An E that is clamped to 1e-12 is a constant, whose terms are not in the last sum.
void causal_backward(const CausalBackwardArgs& args, void* workspace, ParallelFor parallel,
                     int threads);

}  // namespace tost::kernels
