// Linear maps of a few rows, as decoding has them.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// Whether linear_few_rows() takes these: no gradient wanted, CPU, at most 4 rows, weight [out, in]
// contiguous, float32 or bfloat16 like x, autocast off.
bool few_rows_apply(const at::Tensor& x, const at::Tensor& weight);

// x Wᵀ + b over the last dimension of x, sums in float32; result of x's dtype. `bias` [out] may be
// undefined. Bound by reading the weight once.
at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace tost
