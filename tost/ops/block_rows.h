// The inner operators of mlp_grad.h, the same for every device: `Device` says how a kernel is run
// there. Callers have checked their arguments; here only what would read beyond an array is
// checked.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "tost/kernels/mlp_grad.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/tssa_check.h"

namespace tost::branch {

using Optional = std::optional<at::Tensor>;

// Arguments for rows like `x`, which must be [R, C] and contiguous.
template <class Args>
Args args_of(const at::Tensor& x, const at::Tensor& in_products) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "rows must be contiguous, found ", x.sizes());
  TORCH_CHECK(in_products.scalar_type() == at::kFloat || in_products.scalar_type() == at::kBFloat16,
              "rows must be float32 or bfloat16, found ", in_products.scalar_type());
  Args args;
  args.rows = x.size(0), args.width = x.size(1);
  args.dtype = kernel_dtype(in_products);
  return args;
}
// Another array of a size that goes with it.
inline const at::Tensor& sized(const at::Tensor& x, int64_t count) {
  TORCH_CHECK(x.numel() == count && x.is_contiguous(), "expected ", count,
              " contiguous values, found ", x.sizes());
  return x;
}
inline const float* floats(const at::Tensor& x, int64_t count) {
  return sized(x, count).const_data_ptr<float>();
}
inline const float* floats(const Optional& x, int64_t count) {
  return given(x) ? floats(*x, count) : nullptr;
}
inline at::Tensor float_vector(int64_t size, const at::Tensor& like) {
  return at::empty({size}, like.options().dtype(at::kFloat));
}
// One factor for each group of rows, or none.
template <class Args>
void set_factors(Args& args, const Optional& keep) {
  if (!given(keep)) return;
  const int64_t count = keep->numel();
  TORCH_CHECK(args.rows == 0 || (count > 0 && args.rows % count == 0), count,
              " factors do not divide ", args.rows, " rows");
  args.keep = floats(*keep, count);
  args.group = args.rows == 0 ? 1 : args.rows / count;
}

template <class Device>
struct BlockRows {
  using Tensor = at::Tensor;
  using Guard = typename Device::Guard;

  static Tensor workspace(int64_t columns, const Tensor& rows) {
    return float_vector(Device::column_sums_workspace(rows.size(0), columns), rows);
  }

  static std::tuple<Tensor, Tensor, Tensor> norm_forward(const Tensor& x, const Tensor& weight,
                                                         const Optional& bias, double eps,
                                                         at::ScalarType dtype) {
    const Guard guard(x.device());
    const Tensor y = at::empty(x.sizes(), x.options().dtype(dtype));
    auto args = args_of<kernels::NormForwardArgs>(x, y);
    const Tensor mean = float_vector(args.rows, x), rstd = float_vector(args.rows, x);
    args.x = x.const_data_ptr<float>();
    args.weight = floats(weight, args.width);
    args.bias = floats(bias, args.width);
    args.eps = float(eps);
    args.y = y.mutable_data_ptr();
    args.mean = mean.mutable_data_ptr<float>();
    args.rstd = rstd.mutable_data_ptr<float>();
    Device::run(args);
    return {y, mean, rstd};
  }

  static std::tuple<Tensor, Tensor, Tensor> norm_backward(const Tensor& grad,
                                                          const Optional& residual, const Tensor& x,
                                                          const Tensor& mean, const Tensor& rstd,
                                                          const Tensor& weight) {
    const Guard guard(x.device());
    auto args = args_of<kernels::NormBackwardArgs>(x, grad);
    const Tensor grad_x = at::empty_like(x), grad_weight = float_vector(args.width, x);
    const Tensor grad_bias = float_vector(args.width, x), scratch = workspace(2 * args.width, x);
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
    Device::run(args);
    return {grad_x, grad_weight, grad_bias};
  }

  static Tensor gelu_forward(const Tensor& h, const Optional& bias, bool tanh) {
    const Guard guard(h.device());
    const Tensor a = at::empty_like(h);
    auto args = args_of<kernels::GeluForwardArgs>(h, h);
    args.h = h.const_data_ptr();
    args.bias = floats(bias, args.width);
    args.tanh = tanh;
    args.a = a.mutable_data_ptr();
    Device::run(args);
    return a;
  }

  // The sums over rows; empty without a bias.
  static Tensor gelu_backward(const Tensor& h, const Optional& bias, bool tanh, const Tensor& grad,
                              const Tensor& a) {
    const Guard guard(h.device());
    auto args = args_of<kernels::GeluBackwardArgs>(h, h);
    const bool with_sums = given(bias);
    const Tensor sums = float_vector(with_sums ? args.width : 0, h);
    const Tensor scratch = with_sums ? workspace(args.width, h) : sums;
    args.h = h.const_data_ptr();
    args.bias = floats(bias, args.width);
    args.tanh = tanh;
    TORCH_CHECK(grad.scalar_type() == h.scalar_type() && a.scalar_type() == h.scalar_type(),
                "h, grad and a must be of one type");
    args.grad_a = args.grad_h = sized(grad, h.numel()).mutable_data_ptr();
    args.a = sized(a, h.numel()).mutable_data_ptr();
    args.grad_bias = with_sums ? sums.mutable_data_ptr<float>() : nullptr;
    args.workspace = with_sums ? scratch.mutable_data_ptr<float>() : nullptr;
    Device::run(args);
    return sums;
  }

  static Tensor scaled_add(const Tensor& x, const Tensor& branch, const Optional& bias,
                           const Tensor& gamma, const Optional& keep) {
    const Guard guard(x.device());
    const Tensor y = at::empty_like(x);
    auto args = args_of<kernels::ScaledAddArgs>(x, branch);
    args.x = x.const_data_ptr<float>();
    args.branch = sized(branch, x.numel()).const_data_ptr();
    args.bias = floats(bias, args.width);
    args.gamma = floats(gamma, args.width);
    set_factors(args, keep);
    args.y = y.mutable_data_ptr<float>();
    Device::run(args);
    return y;
  }

  // keep grad_y in `dtype`, empty where that is grad_y itself; and its sums over rows.
  static std::tuple<Tensor, Tensor> kept_gradient(const Tensor& grad_y, const Optional& keep,
                                                  at::ScalarType dtype) {
    const Guard guard(grad_y.device());
    const bool as_is = dtype == at::kFloat && !given(keep);
    const Tensor kept =
        as_is ? float_vector(0, grad_y) : at::empty(grad_y.sizes(), grad_y.options().dtype(dtype));
    auto args = args_of<kernels::KeptGradientArgs>(grad_y, kept);
    const Tensor sums = float_vector(args.width, grad_y), scratch = workspace(args.width, grad_y);
    args.grad_y = grad_y.const_data_ptr<float>();
    set_factors(args, keep);
    args.kept = as_is ? nullptr : kept.mutable_data_ptr();
    args.sums = sums.mutable_data_ptr<float>();
    args.workspace = scratch.mutable_data_ptr<float>();
    Device::run(args);
    return {kept, sums};
  }

  static Tensor scale_rows(const Tensor& weight, const Tensor& gamma, at::ScalarType dtype) {
    const Guard guard(weight.device());
    const Tensor scaled = at::empty(weight.sizes(), weight.options().dtype(dtype));
    auto args = args_of<kernels::ScaleRowsArgs>(weight, scaled);
    args.weight = weight.const_data_ptr<float>();
    args.gamma = floats(gamma, args.rows);
    args.scaled = scaled.mutable_data_ptr();
    Device::run(args);
    return scaled;
  }

  static Tensor gamma_gradient(const Tensor& product, const Tensor& weight, const Tensor& gamma) {
    const Guard guard(weight.device());
    auto args = args_of<kernels::GammaGradientArgs>(product, product);
    const Tensor dots = float_vector(args.rows, weight);
    args.weight = floats(weight, product.numel());
    args.gamma = floats(gamma, args.rows);
    args.product = product.mutable_data_ptr();
    args.dots = dots.mutable_data_ptr<float>();
    Device::run(args);
    return dots;
  }

  static void give_to(torch::Library& m) {
    m.impl("_norm_forward", &norm_forward);
    m.impl("_norm_backward", &norm_backward);
    m.impl("_gelu_forward", &gelu_forward);
    m.impl("_gelu_backward", &gelu_backward);
    m.impl("_scaled_add", &scaled_add);
    m.impl("_kept_gradient", &kept_gradient);
    m.impl("_scale_rows", &scale_rows);
    m.impl("_gamma_gradient", &gamma_gradient);
  }
};

}  // namespace tost::branch
