// The gated delta rule as an operator; kernels/delta.h has the definition.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// q, k [B, H, T, K], v [B, H, T, V], beta [B, H, T], log_decay [B, H, T] at most 0 or undefined.
struct DeltaCall {
  at::Tensor q, k, v, beta, log_decay;
};

// o [B, H, T, V] of v's dtype, differentiable. `state` [B, H, K, V], undefined for zeros, is
// replaced by that after the last token, which has no gradient if the kernels run: for q, k, v of
// float32 or bfloat16 on the CPU, unless gradients are differentiated again. Throws a usage Error
// for sizes that do not fit.
at::Tensor gated_delta(const DeltaCall& call, at::Tensor& state);

// The same in ATen, by chunks whose u solve one triangular system (the chunkwise form of both
// papers), differentiable also in the state.
at::Tensor gated_delta_plain(const DeltaCall& call, at::Tensor& state);

}  // namespace tost
