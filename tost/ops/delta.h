// The gated delta rule as an operator; kernels/delta.h has the definition.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// q, k [B, H, T, K], v [B, H, T, V], beta [B, H, T], log_decay [B, H, T] at most 0 or undefined.
struct DeltaCall {
  at::Tensor q, k, v, beta, log_decay;
};

// o [B, H, T, V] of v's dtype, differentiable. `state` [B, H, K, V] is that before the first token
// and becomes that after the last. By the kernels for q, k, v of float32 or bfloat16 on the CPU,
// which leave the new state without gradient; else, and for gradients that are differentiated
// again, by gated_delta_plain(). Undefined states are zeros. Throws a usage Error for sizes that do
// not fit.
at::Tensor gated_delta(const DeltaCall& call, at::Tensor& state);

// The same in ATen by chunks of 64 tokens whose u solve one triangular system: any floating dtype
// and device. The state is differentiable, in and out.
at::Tensor gated_delta_plain(const DeltaCall& call, at::Tensor& state);

}  // namespace tost
