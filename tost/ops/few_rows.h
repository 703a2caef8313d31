// Linear maps of few rows, which decoding needs.
#pragma once

#include <ATen/core/Tensor.h>

#include "tost/ops/quantized_weight.h"

namespace tost {

// Whether linear_few_rows() takes these: on the CPU without gradients and autocast, x [..., in] of
// 1 to 4 rows, weight [out, in] contiguous, bias [out] or undefined, all float32 or all bfloat16.
bool few_rows_apply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Computes x Wᵀ + b over the last dimension of x, with sums in float32, for what few_rows_apply()
// allows. The result has x's dtype. One read of the weight takes most of the time.
at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// As above with a weight in eight bits, or in four bits in the order of step_rows(); x [1 to 4
// rows, in] and bias are float32. With four bits x is rounded to sixteen bits, within 1.6e-5 of the
// largest value of its row.
at::Tensor linear_few_rows(const at::Tensor& x, const QuantizedWeight& weight,
                           const at::Tensor& bias);

}  // namespace tost
