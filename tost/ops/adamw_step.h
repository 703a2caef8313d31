// One step of AdamW on a weight that has a bfloat16 copy (kernels/adamw.h), and norms of gradients.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

struct AdamWStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double gradient_scale = 1;  // the gradient counts times this
  double step = 1;            // of this weight, from 1
};

// Writes p, exp_avg, exp_avg_sq (float32) and `copy` (bfloat16) in one pass over memory; `gradient`
// is float32 or bfloat16. All tensors must be contiguous and of one size. The caller must report
// the change to autograd.
void adamw_step(const AdamWStep& options, const at::Tensor& p, const at::Tensor& exp_avg,
                const at::Tensor& exp_avg_sq, const at::Tensor& copy, const at::Tensor& gradient);

// The sum of squares of a contiguous float32 or bfloat16 tensor, in float64.
double sum_of_squares(const at::Tensor& x);

}  // namespace tost
