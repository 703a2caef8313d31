#include "tost/ops/few_rows.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "tost/kernels/block_cache.h"
#include "tost/kernels/products/few_rows.h"

namespace tost {

bool few_rows_apply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto dtype = weight.scalar_type();
  const bool fits = weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1) &&
                    x.numel() > 0 && x.numel() <= kernels::kMostFewRows * x.size(-1);
  const bool bias_fits = !bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0) &&
                                             bias.scalar_type() == dtype && bias.is_cpu());
  return !c10::GradMode::is_enabled() && weight.is_cpu() && x.is_cpu() && fits && bias_fits &&
         (dtype == at::kFloat || dtype == at::kBFloat16) && x.scalar_type() == dtype &&
         weight.is_contiguous() && !at::autocast::is_autocast_enabled(at::kCPU);
}

at::Tensor linear_few_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto wide = x.to(at::kFloat).contiguous();
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  auto y = at::empty(sizes, wide.options());
  kernels::FewRowsArgs args;
  args.rows = x.numel() / x.size(-1);
  args.inputs = weight.size(1);
  args.outputs = weight.size(0);
  args.type = weight.scalar_type() == at::kBFloat16 ? kernels::WeightType::kBfloat16
                                                    : kernels::WeightType::kFloat32;
  args.x = wide.const_data_ptr<float>();
  args.weight = weight.const_data_ptr();
  const auto dense_bias = bias.defined() ? bias.contiguous() : bias;
  args.bias = dense_bias.defined() ? dense_bias.const_data_ptr() : nullptr;
  args.y = y.mutable_data_ptr<float>();
  // Another thread saves time for 64 Ki weights or more.
  at::parallel_for(0, args.outputs, 65536 / args.inputs + 1,
                   [&](int64_t begin, int64_t end) { kernels::linear_few_rows(args, begin, end); });
  return y.to(x.scalar_type());
}

}  // namespace tost
