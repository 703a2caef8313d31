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

// Arguments for rows like `x`, which must be [R, C] and contiguous. Callers have checked the rest;
// here only what would read beyond an array is checked.
template <class Args>
Args args_of(const Tensor& x, const Tensor& in_products) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "rows must be contiguous, found ", x.sizes());
  Args args;
  args.rows = x.size(0), args.width = x.size(1);
  args.dtype = kernel_dtype(in_products);
  return args;
}

// Another array of a size that goes with it.
const Tensor& sized(const Tensor& x, int64_t count) {
  TORCH_CHECK(x.numel() == count && x.is_contiguous(), "expected ", count,
              " contiguous values, found ", x.sizes());
  return x;
}

// Null for an undefined tensor.
const float* floats(const Tensor& x, int64_t count) {
  return x.defined() ? sized(x, count).const_data_ptr<float>() : nullptr;
}

Tensor float_vector(int64_t size) {
  return at::empty({size}, at::kFloat);
}

Tensor workspace(int64_t columns, const Tensor& rows) {
  return float_vector(kernels::column_sums_workspace(rows.size(0), columns));
}

// One factor for each group of rows, or none.
template <class Args>
void set_factors(Args& args, const Tensor& keep) {
  if (!keep.defined()) return;
  const int64_t count = keep.numel();
  TORCH_CHECK(args.rows == 0 || (count > 0 && args.rows % count == 0), count,
              " factors do not divide ", args.rows, " rows");
  args.keep = floats(keep, count);
  args.group = args.rows == 0 ? 1 : args.rows / count;
}

}  // namespace

Tensor rows_of(const Tensor& x) {
  return x.reshape({-1, x.size(-1)}).contiguous();
}

Tensor normed(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
              at::ScalarType type, Tensor* mean, Tensor* rstd) {
  const Tensor y = at::empty(x.sizes(), x.options().dtype(type));
  auto args = args_of<kernels::NormForwardArgs>(x, y);
  args.x = x.const_data_ptr<float>();
  args.weight = floats(weight, args.width);
  args.bias = floats(bias, args.width);
  args.eps = float(eps);
  args.y = y.mutable_data_ptr();
  const Tensor means = float_vector(args.rows), rstds = float_vector(args.rows);
  args.mean = means.mutable_data_ptr<float>();
  args.rstd = rstds.mutable_data_ptr<float>();
  kernels::norm_forward(args, torch_parallel);
  if (mean != nullptr) *mean = means;
  if (rstd != nullptr) *rstd = rstds;
  return y;
}

NormGradients norm_gradients(const Tensor& grad, const Tensor& residual, const Tensor& x,
                             const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                             bool with_bias) {
  auto args = args_of<kernels::NormBackwardArgs>(x, grad);
  const Tensor grad_x = at::empty_like(x), grad_weight = float_vector(args.width),
               grad_bias = float_vector(args.width), scratch = workspace(2 * args.width, x);
  args.x = x.const_data_ptr<float>();
  args.mean = floats(mean, args.rows);
  args.rstd = floats(rstd, args.rows);
  args.weight = floats(weight, args.width);
  args.grad_y = sized(grad, x.numel()).const_data_ptr();
  args.grad_residual = floats(residual, x.numel());
  args.grad_x = grad_x.mutable_data_ptr<float>();
  args.grad_weight = grad_weight.mutable_data_ptr<float>();
  args.grad_bias = grad_bias.mutable_data_ptr<float>();
  args.workspace = scratch.mutable_data_ptr<float>();
  kernels::norm_backward(args, torch_parallel);
  return {grad_x, grad_weight, with_bias ? grad_bias : Tensor()};
}

Tensor activated(const Tensor& h, const Tensor& bias, bool tanh) {
  const Tensor a = at::empty_like(h);
  auto args = args_of<kernels::GeluForwardArgs>(h, h);
  args.h = h.const_data_ptr();
  args.bias = floats(bias, args.width);
  args.tanh = tanh;
  args.a = a.mutable_data_ptr();
  kernels::gelu_forward(args, torch_parallel);
  return a;
}

Tensor back_through_gelu(const Tensor& h, const Tensor& bias, bool tanh, Tensor& grad, Tensor& a) {
  auto args = args_of<kernels::GeluBackwardArgs>(h, h);
  TORCH_CHECK(grad.scalar_type() == h.scalar_type() && a.scalar_type() == h.scalar_type(),
              "h, grad and a must be of one type");
  Tensor sums, scratch;
  if (bias.defined()) {
    sums = float_vector(args.width), scratch = workspace(args.width, h);
    args.bias = floats(bias, args.width);
    args.grad_bias = sums.mutable_data_ptr<float>();
    args.workspace = scratch.mutable_data_ptr<float>();
  }
  args.h = h.const_data_ptr();
  args.tanh = tanh;
  args.grad_a = args.grad_h = sized(grad, h.numel()).mutable_data_ptr();
  args.a = sized(a, h.numel()).mutable_data_ptr();
  kernels::gelu_backward(args, torch_parallel);
  return sums;
}

Tensor added(const Tensor& x, const Tensor& branch, const Tensor& bias, const Tensor& gamma,
             const Tensor& keep) {
  const Tensor y = at::empty_like(x);
  auto args = args_of<kernels::ScaledAddArgs>(x, branch);
  args.x = x.const_data_ptr<float>();
  args.branch = sized(branch, x.numel()).const_data_ptr();
  args.bias = floats(bias, args.width);
  args.gamma = floats(gamma, args.width);
  set_factors(args, keep);
  args.y = y.mutable_data_ptr<float>();
  kernels::scaled_add(args, torch_parallel);
  return y;
}

AddGradients::AddGradients(const Tensor& grad_y, const Tensor& keep, at::ScalarType type) {
  const bool as_is = type == at::kFloat && !keep.defined();
  kept = as_is ? grad_y : at::empty(grad_y.sizes(), grad_y.options().dtype(type));
  auto args = args_of<kernels::KeptGradientArgs>(grad_y, kept);
  sums = float_vector(args.width);
  const Tensor scratch = workspace(args.width, grad_y);
  args.grad_y = grad_y.const_data_ptr<float>();
  set_factors(args, keep);
  args.kept = as_is ? nullptr : kept.mutable_data_ptr();
  args.sums = sums.mutable_data_ptr<float>();
  args.workspace = scratch.mutable_data_ptr<float>();
  kernels::kept_gradient(args, torch_parallel);
}

Tensor AddGradients::of_input(const Tensor& weight_values, const Tensor& gamma_values) const {
  const Tensor scaled =
      at::empty(weight_values.sizes(), weight_values.options().dtype(kept.scalar_type()));
  auto args = args_of<kernels::ScaleRowsArgs>(weight_values, scaled);
  args.weight = weight_values.const_data_ptr<float>();
  args.gamma = floats(gamma_values, args.rows);
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
  auto args = args_of<kernels::GammaGradientArgs>(weight, weight);
  gamma = float_vector(args.rows);
  args.weight = floats(weight_values, weight.numel());
  args.gamma = floats(gamma_values, args.rows);
  args.product = weight.mutable_data_ptr();
  args.dots = gamma.mutable_data_ptr<float>();
  kernels::gamma_gradient(args, torch_parallel);
  if (!bias_values.defined()) return;
  gamma.addcmul_(bias_values, sums);
  bias = gamma_values * sums;
}

}  // namespace tost::branch
