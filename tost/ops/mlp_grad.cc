#include "tost/ops/mlp_grad.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "tost/kernels/mlp_grad.h"
#include "tost/ops/kernel_call.h"

namespace tost::branch {

using at::Tensor;

namespace {

const float* floats(const Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}
float* floats_out(const Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}
Tensor float_vector(int64_t size) {
  return at::empty({size}, at::kFloat);
}
Tensor workspace(int64_t rows, int64_t width) {
  return float_vector(kernels::column_sums_workspace(rows, width));
}
int64_t rows_a_factor(const Tensor& rows, const Tensor& keep) {
  return keep.defined() ? rows.size(0) / keep.size(0) : 1;
}

}  // namespace

Tensor rows_of(const Tensor& x) {
  return x.reshape({-1, x.size(-1)}).contiguous();
}

Tensor normed(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
              at::ScalarType type, Tensor* mean, Tensor* rstd) {
  Tensor y = at::empty(x.sizes(), type);
  if (mean != nullptr) *mean = float_vector(x.size(0));
  if (rstd != nullptr) *rstd = float_vector(x.size(0));
  kernels::NormForwardArgs args;
  args.rows = x.size(0), args.width = x.size(1);
  args.dtype = kernel_dtype(y);
  args.x = floats(x);
  args.weight = floats(weight);
  args.bias = floats(bias);
  args.eps = float(eps);
  args.y = y.mutable_data_ptr();
  args.mean = mean != nullptr ? floats_out(*mean) : nullptr;
  args.rstd = rstd != nullptr ? floats_out(*rstd) : nullptr;
  kernels::norm_forward(args, torch_parallel);
  return y;
}

NormGradients norm_gradients(const Tensor& grad, const Tensor& residual, const Tensor& x,
                             const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                             bool with_bias) {
  NormGradients result{at::empty_like(x), at::empty_like(weight), {}};
  if (with_bias) result.bias = at::empty_like(weight);
  const Tensor scratch = workspace(x.size(0), 2 * x.size(1));
  kernels::NormBackwardArgs args;
  args.rows = x.size(0), args.width = x.size(1);
  args.dtype = kernel_dtype(grad);
  args.x = floats(x);
  args.mean = floats(mean);
  args.rstd = floats(rstd);
  args.weight = floats(weight);
  args.grad_y = grad.const_data_ptr();
  args.grad_residual = floats(residual);
  args.grad_x = floats_out(result.x);
  args.grad_weight = floats_out(result.weight);
  args.grad_bias = floats_out(result.bias);
  args.workspace = floats_out(scratch);
  kernels::norm_backward(args, torch_parallel);
  return result;
}

Tensor activated(const Tensor& h, const Tensor& bias, bool tanh) {
  Tensor a = at::empty_like(h);
  kernels::GeluForwardArgs args;
  args.rows = h.size(0), args.width = h.size(1);
  args.dtype = kernel_dtype(h);
  args.h = h.const_data_ptr();
  args.bias = floats(bias);
  args.tanh = tanh;
  args.a = a.mutable_data_ptr();
  kernels::gelu_forward(args, torch_parallel);
  return a;
}

Tensor back_through_gelu(const Tensor& h, const Tensor& bias, bool tanh, Tensor& grad, Tensor& a) {
  Tensor sums, scratch;
  if (bias.defined()) {
    sums = float_vector(h.size(1));
    scratch = workspace(h.size(0), h.size(1));
  }
  kernels::GeluBackwardArgs args;
  args.rows = h.size(0), args.width = h.size(1);
  args.dtype = kernel_dtype(h);
  args.h = h.const_data_ptr();
  args.bias = floats(bias);
  args.tanh = tanh;
  args.grad_a = grad.const_data_ptr();
  args.grad_h = grad.mutable_data_ptr();
  args.a = a.mutable_data_ptr();
  args.grad_bias = floats_out(sums);
  args.workspace = floats_out(scratch);
  kernels::gelu_backward(args, torch_parallel);
  return sums;
}

Tensor added(const Tensor& x, const Tensor& branch, const Tensor& bias, const Tensor& gamma,
             const Tensor& keep) {
  Tensor y = at::empty_like(x);
  kernels::ScaledAddArgs args;
  args.rows = x.size(0), args.width = x.size(1);
  args.dtype = kernel_dtype(branch);
  args.x = floats(x);
  args.branch = branch.const_data_ptr();
  args.bias = floats(bias);
  args.gamma = floats(gamma);
  args.keep = floats(keep);
  args.group = rows_a_factor(x, keep);
  args.y = floats_out(y);
  kernels::scaled_add(args, torch_parallel);
  return y;
}

AddGradients::AddGradients(const Tensor& grad_y, const Tensor& keep, at::ScalarType type) {
  const bool as_is = type == at::kFloat && !keep.defined();
  kept = as_is ? grad_y : at::empty(grad_y.sizes(), type);
  sums = float_vector(grad_y.size(1));
  const Tensor scratch = workspace(grad_y.size(0), grad_y.size(1));
  kernels::KeptGradientArgs args;
  args.rows = grad_y.size(0), args.width = grad_y.size(1);
  args.dtype = kernel_dtype(kept);
  args.grad_y = floats(grad_y);
  args.keep = floats(keep);
  args.group = rows_a_factor(grad_y, keep);
  args.kept = as_is ? nullptr : kept.mutable_data_ptr();
  args.sums = floats_out(sums);
  args.workspace = floats_out(scratch);
  kernels::kept_gradient(args, torch_parallel);
}

Tensor AddGradients::of_input(const Tensor& weight_values, const Tensor& gamma_values) const {
  Tensor scaled = at::empty(weight_values.sizes(), kept.scalar_type());
  kernels::ScaleRowsArgs args;
  args.rows = scaled.size(0), args.width = scaled.size(1);
  args.dtype = kernel_dtype(scaled);
  args.weight = floats(weight_values);
  args.gamma = floats(gamma_values);
  args.scaled = scaled.mutable_data_ptr();
  kernels::scale_rows(args, torch_parallel);
  return at::mm(kept, scaled);
}

// With product = keptᵀ a: the gradient of weight is gamma product, and gamma's is the sum over
// rows of kept (a weightᵀ + bias), which is the sum of weight product along its rows, and bias
// sums.
void AddGradients::of_parameters(const Tensor& a, const Tensor& weight_values,
                                 const Tensor& bias_values, const Tensor& gamma_values) {
  weight = at::mm(kept.t(), a);
  gamma = float_vector(weight.size(0));
  kernels::GammaGradientArgs args;
  args.rows = weight.size(0), args.width = weight.size(1);
  args.dtype = kernel_dtype(weight);
  args.weight = floats(weight_values);
  args.gamma = floats(gamma_values);
  args.product = weight.mutable_data_ptr();
  args.dots = floats_out(gamma);
  kernels::gamma_gradient(args, torch_parallel);
  if (!bias_values.defined()) return;
  gamma.addcmul_(bias_values, sums);
  bias = gamma_values * sums;
}

}  // namespace tost::branch
