// The gated delta rule on raw memory, forward and backward, for sequences, chunks and single
// tokens, from the state of earlier tokens (arXiv 2406.06484, 2412.06464).
//
// The definition for one sample and head: S [K, V], q and k [T, K], v [T, V], beta, log decay a [T]
//   S_t = e^(a_t) S_(t-1) + k_t u_tᵀ,  u_t = beta_t (v_t - e^(a_t) S_(t-1)ᵀ k_t)
//   o_t = scale S_tᵀ q_t
//
// Samples, tokens and heads have any strides; the numbers of a head are adjacent. q, k, v, o and
// their gradients are float32 or bfloat16; all other values and the arithmetic are float32.
//
// No bit of the results depends on the number of threads or on later tokens. Sequences, chunks and
// single steps agree up to rounding, and so do instruction sets (isa.h).
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

// An array [B, T, H, K or V], or [B, T, H] with one number for a token; strides count elements.
template <class Pointer>
struct HeadsOf {
  Pointer data = nullptr;
  int64_t sample_stride = 0, token_stride = 0, head_stride = 0;
};
using ConstHeads = HeadsOf<const void*>;
using Heads = HeadsOf<void*>;

struct DeltaArgs {
  int64_t samples = 0, tokens = 0, heads = 0, keys = 0, values = 0;  // B, T: may be 0; H, K, V
  DType dtype = DType::kFloat32;  // of q, k, v, o and their gradients
  ConstHeads q, k, v, beta;
  ConstHeads log_decay;  // at most 0, or null: nothing is forgotten
  float scale = 1;

  // Forward. States are [B, H, K, V], contiguous.
  const float* state = nullptr;  // before the first token; null means zeros
  Heads o;                       // must not overlap the inputs
  float* next_state = nullptr;   // optional: after the last token; may be `state` itself
  float* carry = nullptr;        // optional, for backward: delta_carry_size() numbers

  // Further arguments of backward, after the inputs and `carry`. Results must not overlap inputs.
  ConstHeads grad_o;
  const float* grad_next_state = nullptr;  // optional
  Heads grad_q, grad_k, grad_v, grad_beta;
  Heads grad_log_decay;         // optional
  float* grad_state = nullptr;  // optional
};

// The states before every 64 tokens.
int64_t delta_carry_size(const DeltaArgs& args);

// The bytes of workspace: for each of at most B H threads about 4 K V for up to H heads, at most
// 256 KiB of them, and 256 (K + V); for backward 16 K V and 1024 (K + V) more.
int64_t delta_workspace(const DeltaArgs& args, bool backward, int threads);

// `workspace` is 64-byte aligned; `threads` is the number for which the workspace was sized.
// Neither call allocates. The functions throw only a usage Error for a wrong TOST_ISA (isa.h).
void delta_forward(const DeltaArgs& args, void* workspace, ParallelFor parallel, int threads);
void delta_backward(const DeltaArgs& args, void* workspace, ParallelFor parallel, int threads);

}  // namespace tost::kernels
