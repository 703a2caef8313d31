// The gated delta rule as an operator; kernels/delta.h has the definition.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// The inputs are q, k [B, H, T, K], v [B, H, T, V], beta [B, H, T], and log_decay [B, H, T], which
// is at most 0 or undefined.
struct DeltaCall {
  at::Tensor q, k, v, beta, log_decay;
};

// Returns o [B, H, T, V] of v's dtype, differentiable. Replaces `state` [B, H, K, V] (undefined
// means zeros) by the state after the last token. The new state has no gradient if the kernels run.
// The kernels run for float32 and bfloat16 on the CPU, unless gradients are differentiated again.
// Throws a usage Error for sizes that do not fit.
at::Tensor gated_delta(const DeltaCall& call, at::Tensor& state);

// The plain form in ATen, also differentiable in the state. The vectors u of a chunk solve one
// triangular system, as in the chunkwise form of both papers.
at::Tensor gated_delta_plain(const DeltaCall& call, at::Tensor& state);

}  // namespace tost
