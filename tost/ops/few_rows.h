// Linear maps of a few rows, as decoding has them.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// Whether linear_few_rows() takes these: no gradient wanted, CPU, x [..., in] of 1 to 4 rows,
// weight [out, in] contiguous, bias [out] or undefined, all float32 or all bfloat16, autocast off.
bool few_rows_apply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// x Wᵀ + b over the last dimension of x, sums in float32; result of x's dtype. Only for what
// few_rows_apply() allows. Bound by reading the weight once.
at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace tost
