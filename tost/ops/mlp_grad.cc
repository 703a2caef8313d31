#include "tost/ops/mlp_grad.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>

#include <optional>
#include <tuple>

#include "tost/ops/device.h"
#include "tost/ops/inner_operator.h"

namespace tost::branch {

using at::Tensor;
using Optional = std::optional<Tensor>;

bool runs_on(at::Device device) {
  if (device.is_cpu()) return true;
  if (!device.is_cuda()) return false;
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tost::_norm_forward", "");
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA)) return false;
  return !built_with_cuda() || gpu_has_kernels(device.index());  // without, somebody stands in
}

Tensor rows_of(const Tensor& x) {
  return x.reshape({-1, x.size(-1)}).contiguous();
}

Tensor normed(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
              at::ScalarType type, Tensor* mean, Tensor* rstd) {
  static const auto op = inner_operator<std::tuple<Tensor, Tensor, Tensor>(
      const Tensor&, const Tensor&, const Optional&, double, at::ScalarType)>(
      "tost::_norm_forward");
  auto [y, means, rstds] = op.call(x, weight, if_defined(bias), eps, type);
  if (mean != nullptr) *mean = means;
  if (rstd != nullptr) *rstd = rstds;
  return y;
}

NormGradients norm_gradients(const Tensor& grad, const Tensor& residual, const Tensor& x,
                             const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                             bool with_bias) {
  static const auto op = inner_operator<std::tuple<Tensor, Tensor, Tensor>(
      const Tensor&, const Optional&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>(
      "tost::_norm_backward");
  const auto [grad_x, grad_weight, grad_bias] =
      op.call(grad, if_defined(residual), x, mean, rstd, weight);
  return {grad_x, grad_weight, with_bias ? grad_bias : Tensor()};
}

Tensor activated(const Tensor& h, const Tensor& bias, bool tanh) {
  static const auto op =
      inner_operator<Tensor(const Tensor&, const Optional&, bool)>("tost::_gelu_forward");
  return op.call(h, if_defined(bias), tanh);
}

Tensor back_through_gelu(const Tensor& h, const Tensor& bias, bool tanh, Tensor& grad, Tensor& a) {
  static const auto op =
      inner_operator<Tensor(const Tensor&, const Optional&, bool, const Tensor&, const Tensor&)>(
          "tost::_gelu_backward");
  const Tensor sums = op.call(h, if_defined(bias), tanh, grad, a);
  return bias.defined() ? sums : Tensor();
}

Tensor added(const Tensor& x, const Tensor& branch, const Tensor& bias, const Tensor& gamma,
             const Tensor& keep) {
  static const auto op =
      inner_operator<Tensor(const Tensor&, const Tensor&, const Optional&, const Tensor&,
                            const Optional&)>("tost::_scaled_add");
  return op.call(x, branch, if_defined(bias), gamma, if_defined(keep));
}

AddGradients::AddGradients(const Tensor& grad_y, const Tensor& keep, at::ScalarType type) {
  static const auto op =
      inner_operator<std::tuple<Tensor, Tensor>(const Tensor&, const Optional&, at::ScalarType)>(
          "tost::_kept_gradient");
  std::tie(kept, sums) = op.call(grad_y, if_defined(keep), type);
  if (type == at::kFloat && !keep.defined()) kept = grad_y;
}

Tensor AddGradients::of_input(const Tensor& weight_values, const Tensor& gamma_values) const {
  static const auto op =
      inner_operator<Tensor(const Tensor&, const Tensor&, at::ScalarType)>("tost::_scale_rows");
  return at::mm(kept, op.call(weight_values, gamma_values, kept.scalar_type()));
}

// With product = keptᵀ a: the gradient of weight is gamma product, and gamma's is the sum over
// rows of kept (a weightᵀ + bias), which is the sum of weight product along its rows, and bias
// sums.
void AddGradients::of_parameters(const Tensor& a, const Tensor& weight_values,
                                 const Tensor& bias_values, const Tensor& gamma_values) {
  static const auto op =
      inner_operator<Tensor(const Tensor&, const Tensor&, const Tensor&)>("tost::_gamma_gradient");
  weight = at::mm(kept.t(), a);
  gamma = op.call(weight, weight_values, gamma_values);
  if (!bias_values.defined()) return;
  gamma.addcmul_(bias_values, sums);
  bias = gamma_values * sums;
}

}  // namespace tost::branch
