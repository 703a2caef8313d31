// Causal TSSA on raw memory, forward and backward: for whole sequences, chunks of them and single
// tokens, with a state that holds the sums over the tokens before.
//
// Definition (official language code of arXiv 2412.17810, dropout left out). Per sample, w [T, H,
// P], q = w^2, all sums over the tokens u <= t, those before the call included:
//   E_ki  = max(sum_u q_uki, 1e-12)
//   a_tk  = sum_i q_tki / E_ki + P b_k(position + t)   membership logit; b is 0 past its last entry
//   Pi_t. = softmax over heads of (a_tk temp_k)
//   N_k   = sum_u Pi_uk,  M_ki = sum_u Pi_uk q_uki
//   y     = -(w Pi D),  D = 1 / (1 + M / (N + 1e-8))
//
// Layout and storage as in tssa.h. Arithmetic is float32. A sum consists of a float64 total up to
// the chunk (kCausalChunk tokens, counted from the first token of the call) and a float32 rest
// within it, so its error does not grow with the length; the state is float64.
//
// Results do not depend on the number of threads, bit for bit, nor on later tokens. Whole
// sequences, chunks and single steps agree to rounding, as do the instruction sets (isa.h).
//
// Range: E and M count as 8e37 where they are larger, so |w| sqrt(T) up to 9e18 is exact to
// rounding. NaN in a token reaches it and all later ones of its sample.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

inline constexpr int64_t kCausalChunk = 64;

// The number of chunks in a call of so many tokens.
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

// The bytes of workspace for so many threads: about 40 C (backward 300 C) a thread, and some
// megabytes for a window of tokens if sequences are split over threads; backward also 4 H for every
// token with a bias.
int64_t causal_forward_workspace(const CausalForwardArgs& args, int threads);
int64_t causal_backward_workspace(const CausalBackwardArgs& args, int threads);

// `workspace` is 64-byte aligned; `threads` is the number that `parallel` will use and for which
// the workspace was sized. It changes the schedule, not the result. Forward and backward do not
// allocate, and throw only a usage Error for a wrong TOST_ISA (isa.h). A sequence is spread over at
// most H threads.
void causal_forward(const CausalForwardArgs& args, void* workspace, ParallelFor parallel,
                    int threads);

// Gradients by the closed form. With g = grad_y, N' = N + 1e-8, S = M / N', and reverse sums over
// the tokens u >= t:
//   dS      = D^2 g w Pi
//   dPi_t   = sum_i (q_t sum_u dS_u / N'_u - g w D) - sum_u sum_i dS_u S_u / N'_u + grad_pi
//   dlogit  = Pi (dPi - sum_k Pi dPi),  da = temp dlogit,  dtemp = sum_t dlogit a,  db_t = P da_t
//   dw_t    = Pi (2 w sum_u dS_u / N'_u - g D) + 2 w (da / E - sum_u da_u q_u / E_u^2)
// Where E is clamped to 1e-12 it is a constant and its terms leave the last sum.
void causal_backward(const CausalBackwardArgs& args, void* workspace, ParallelFor parallel,
                     int threads);

// Computes the forward in float64, without a state: w and y [B, T, C] contiguous.
void causal_reference(const TssaShape& shape, const float* w, const float* temp,
                      const CausalBias& bias, double* y);

}  // namespace tost::kernels
