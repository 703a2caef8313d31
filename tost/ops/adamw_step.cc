#include "tost/ops/adamw_step.h"

#include <cmath>
#include <vector>

#include "tost/kernels/adamw.h"
#include "tost/ops/kernel_call.h"

namespace tost {

void adamw_step(const AdamWStep& o, const at::Tensor& p, const at::Tensor& exp_avg,
                const at::Tensor& exp_avg_sq, const at::Tensor& copy, const at::Tensor& gradient) {
  kernels::AdamWArgs args;
  args.count = p.numel();
  args.p = p.mutable_data_ptr<float>();
  args.m = exp_avg.mutable_data_ptr<float>();
  args.v = exp_avg_sq.mutable_data_ptr<float>();
  args.gradient = gradient.const_data_ptr();
  args.gradient_dtype = kernel_dtype(gradient);
  args.copy = copy.mutable_data_ptr();
  args.scale = float(o.gradient_scale);
  args.decay = float(1 - o.lr * o.weight_decay);
  args.rest1 = float(1 - o.beta1);
  args.rest2 = float(1 - o.beta2);
  args.eps = float(o.eps);
  args.rate = float(o.lr / (1 - std::pow(o.beta1, o.step)));
  args.root = float(1 / std::sqrt(1 - std::pow(o.beta2, o.step)));
  kernels::adamw(args, torch_parallel);
}

double sum_of_squares(const at::Tensor& x) {
  std::vector<double> parts(static_cast<size_t>(kernels::sum_of_squares_parts(x.numel())));
  return kernels::sum_of_squares(x.const_data_ptr(), kernel_dtype(x), x.numel(), parts.data(),
                                 torch_parallel);
}

}  // namespace tost
