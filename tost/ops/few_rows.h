// Linear maps of a few rows, which decoding needs.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// Whether linear_few_rows() accepts the tensors. They must be on the CPU, without gradient or
// autocast, all float32 or all bfloat16; x [..., in] must have 1 to 4 rows, and weight [out, in]
// must be contiguous.
bool few_rows_apply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Returns x Wᵀ + b of x's dtype, with sums in float32. few_rows_apply() must allow the tensors. One
// read of the weight bounds the time.
at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace tost
