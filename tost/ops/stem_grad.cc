#include "tost/ops/stem_grad.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "tost/kernels/mlp_grad.h"
#include "tost/kernels/stem_grad.h"
#include "tost/ops/kernel_call.h"

namespace tost {

using at::Tensor;

namespace {

Tensor channels_of(const Tensor& z) {
  return at::empty({z.size(1)}, at::kFloat);
}
Tensor workspace(const Tensor& z) {
  const int64_t rows = z.numel() / z.size(1);
  return at::empty({kernels::column_sums_workspace(rows, 2 * z.size(1))}, at::kFloat);
}

kernels::NormGeluArgs call_of(const Tensor& z, const Tensor& weight, const Tensor& bias,
                              const Tensor& mean, const Tensor& rstd, bool gelu) {
  kernels::NormGeluArgs args;
  args.rows = z.numel() / z.size(1), args.width = z.size(1);
  args.dtype = kernel_dtype(z);
  args.gelu = gelu;
  args.z = z.const_data_ptr();
  args.mean = mean.const_data_ptr<float>();
  args.rstd = rstd.const_data_ptr<float>();
  args.weight = weight.const_data_ptr<float>();
  args.bias = bias.const_data_ptr<float>();
  return args;
}

}  // namespace

std::pair<Tensor, Tensor> column_moments(const Tensor& z) {
  const Tensor mean = channels_of(z), variance = channels_of(z), scratch = workspace(z);
  kernels::ColumnMomentsArgs args;
  args.rows = z.numel() / z.size(1), args.width = z.size(1);
  args.dtype = kernel_dtype(z);
  args.z = z.const_data_ptr();
  args.mean = mean.mutable_data_ptr<float>();
  args.variance = variance.mutable_data_ptr<float>();
  args.workspace = scratch.mutable_data_ptr<float>();
  kernels::column_moments(args, torch_parallel);
  return {mean, variance};
}

Tensor batch_norm_gelu(const Tensor& z, const Tensor& weight, const Tensor& bias,
                       const Tensor& mean, const Tensor& rstd, bool gelu) {
  Tensor a = at::empty_like(z);
  auto args = call_of(z, weight, bias, mean, rstd, gelu);
  args.a = a.mutable_data_ptr();
  kernels::norm_gelu(args, torch_parallel);
  return a;
}

NormGeluGradients batch_norm_gelu_gradients(const Tensor& grad, const Tensor& z,
                                            const Tensor& weight, const Tensor& bias,
                                            const Tensor& mean, const Tensor& rstd, bool gelu) {
  NormGeluGradients result{at::empty_like(z), channels_of(z), channels_of(z)};
  const Tensor scratch = workspace(z);
  kernels::NormGeluBackwardArgs args;
  args.forward = call_of(z, weight, bias, mean, rstd, gelu);
  args.grad_a = grad.const_data_ptr();
  args.grad_z = result.z.mutable_data_ptr();
  args.grad_weight = result.weight.mutable_data_ptr<float>();
  args.grad_bias = result.bias.mutable_data_ptr<float>();
  args.workspace = scratch.mutable_data_ptr<float>();
  kernels::norm_gelu_backward(args, torch_parallel);
  return result;
}

}  // namespace tost
