// Token Statistics Self-Attention as an operator of torch: torch.ops.tost.tssa in Python,
// tost::tssa here.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "tost/ops/plain.h"

namespace tost {

// Takes w [B, N, C] float32, bfloat16 or float64, with any strides; temp [H, 1], where H divides C;
// lengths [B] int64, the valid length of each sample, 0 to N (default N). Returns y [B, N, C]
// contiguous, of w's dtype, and the memberships pi [B, H, N], float32 (float64 for a float64 w). y
// and pi are 0 at padding, which the kernels do not read. Equations: kernels/tssa.h. Both outputs
// are differentiable in w and temp, any number of times. On the CPU, float32 and bfloat16 run fused
// kernels in float32 arithmetic, whose results do not depend on the number of threads. float64, and
// all dtypes on other devices, run the plain form. The kernels save w, pi and 2 C + H numbers a
// sample for backward. Autocast does not change the operator: w has the dtype of its projection,
// temp stays float32. Throws a usage Error for wrong ranks, dtypes, lengths out of range, or heads
// that do not divide C.
std::tuple<at::Tensor, at::Tensor> tssa(const at::Tensor& w, const at::Tensor& temp,
                                        const std::optional<at::Tensor>& lengths = {});

}  // namespace tost
