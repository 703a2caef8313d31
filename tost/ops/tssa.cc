// tssa and its derivative for autograd.
#include "tost/ops/tssa.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "tost/ops/inner_operator.h"
#include "tost/ops/plain_gradients.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_inner.h"

namespace tost {

using torch::autograd::variable_list;

std::tuple<at::Tensor, at::Tensor> tssa(const at::Tensor& w, const at::Tensor& temp,
                                        const std::optional<at::Tensor>& lengths) {
  static const auto op = inner_operator<decltype(tssa)>("tost::tssa");
  return op.call(w, temp, given(lengths) ? lengths : std::nullopt);
}

TssaForwardResult tssa_forward(const at::Tensor& w, const at::Tensor& temp,
                               const std::optional<at::Tensor>& lengths) {
  static const auto op = inner_operator<decltype(tssa_forward)>("tost::tssa_forward");
  return op.call(w, temp, lengths);
}

std::tuple<at::Tensor, at::Tensor> tssa_backward(const std::optional<at::Tensor>& grad_y,
                                                 const std::optional<at::Tensor>& grad_pi,
                                                 const at::Tensor& w, const at::Tensor& temp,
                                                 const at::Tensor& pi, const at::Tensor& energy,
                                                 const at::Tensor& moment, const at::Tensor& pi_sum,
                                                 const std::optional<at::Tensor>& lengths) {
  static const auto op = inner_operator<decltype(tssa_backward)>("tost::tssa_backward");
  return op.call(grad_y, grad_pi, w, temp, pi, energy, moment, pi_sum, lengths);
}

namespace {

class TssaFunction : public torch::autograd::Function<TssaFunction> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& w,
                               const at::Tensor& temp, const std::optional<at::Tensor>& lengths) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, pi, energy, moment, pi_sum] = tssa_forward(w, temp, lengths);
    context->save_for_backward(
        {w, temp, pi, energy, moment, pi_sum, lengths.value_or(at::Tensor())});
    context->set_materialize_grads(false);
    return {y, pi};
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& grads) {
    if (!grads[0].defined() && !grads[1].defined()) return variable_list(3);
    const auto saved = context->get_saved_variables();
    if (c10::GradMode::is_enabled()) {
      const auto [y, pi] = tssa_plain(saved[0], saved[1], if_defined(saved[6]));
      return plain_gradients({y, pi}, {saved[0], saved[1], at::Tensor()}, grads);
    }
    const auto [w_grad, temp_grad] =
        tssa_backward(if_defined(grads[0]), if_defined(grads[1]), saved[0], saved[1], saved[2],
                      saved[3], saved[4], saved[5], if_defined(saved[6]));
    return {w_grad, temp_grad, at::Tensor()};
  }
};

std::tuple<at::Tensor, at::Tensor> tssa_autograd(const at::Tensor& w, const at::Tensor& temp,
                                                 const std::optional<at::Tensor>& lengths) {
  if (c10::GradMode::is_enabled() && (w.requires_grad() || temp.requires_grad())) {
    const auto outputs = TssaFunction::apply(w, temp, lengths);
    return {outputs[0], outputs[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // no statistics are kept
  return tssa(w, temp, lengths);
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, Autograd, m) {
  m.impl("tssa", tssa_autograd);
  m.impl("tssa_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("tssa_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace tost
