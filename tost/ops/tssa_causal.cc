// tssa_causal and its derivative for autograd.
#include "tost/ops/tssa_causal.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "tost/ops/inner_operator.h"
#include "tost/ops/plain_gradients.h"
#include "tost/ops/tssa_causal_inner.h"

namespace tost {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

using CausalResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;

CausalResult dispatch_causal(const at::Tensor& w, const at::Tensor& temp,
                             const at::Tensor& denom_bias, const OptionalTensor& state,
                             c10::SymInt position) {
  static const auto op = inner_operator<decltype(dispatch_causal)>("tost::tssa_causal");
  return op.call(w, temp, denom_bias, state, std::move(position));
}

}  // namespace

CausalResult tssa_causal(const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
                         const OptionalTensor& state, int64_t position) {
  return dispatch_causal(w, temp, denom_bias, state, position);
}

CausalForwardResult tssa_causal_forward(const at::Tensor& w, const at::Tensor& temp,
                                        const at::Tensor& denom_bias, const OptionalTensor& state,
                                        c10::SymInt position) {
  static const auto op = inner_operator<decltype(tssa_causal_forward)>("tost::tssa_causal_forward");
  return op.call(w, temp, denom_bias, state, std::move(position));
}

CausalGradients tssa_causal_backward(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                                     const at::Tensor& w, const at::Tensor& temp,
                                     const at::Tensor& denom_bias, c10::SymInt position,
                                     const at::Tensor& pi, const at::Tensor& carry,
                                     const at::Tensor& pi_carry) {
  static const auto op =
      inner_operator<decltype(tssa_causal_backward)>("tost::tssa_causal_backward");
  return op.call(grad_y, grad_pi, w, temp, denom_bias, std::move(position), pi, carry, pi_carry);
}

namespace {

class CausalFunction : public torch::autograd::Function<CausalFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& w,
                               const at::Tensor& temp, const at::Tensor& denom_bias,
                               const OptionalTensor& state, const c10::SymInt& position) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, pi, after, carry, pi_carry] =
        tssa_causal_forward(w, temp, denom_bias, state, position);
    context->save_for_backward(
        {w, temp, denom_bias, pi, carry, pi_carry, state.value_or(at::Tensor())});
    context->saved_data["position"] = position;
    context->set_materialize_grads(false);
    context->mark_non_differentiable({after});
    return {y, pi, after};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    variable_list result(5);  // none for state and position
    if (!grads[0].defined() && !grads[1].defined()) return result;
    const auto saved = context->get_saved_variables();
    const auto position = context->saved_data["position"].toSymInt();
    if (c10::GradMode::is_enabled()) {
      const auto [y, pi, after] =
          tssa_causal_plain(saved[0], saved[1], saved[2], if_defined(saved[6]),
                            position.guard_int(__FILE__, __LINE__));
      return plain_gradients({y, pi}, {saved[0], saved[1], saved[2], at::Tensor(), at::Tensor()},
                             grads);
    }
    std::tie(result[0], result[1], result[2]) =
        tssa_causal_backward(if_defined(grads[0]), if_defined(grads[1]), saved[0], saved[1],
                             saved[2], position, saved[3], saved[4], saved[5]);
    return result;
  }
};

CausalResult tssa_causal_autograd(const at::Tensor& w, const at::Tensor& temp,
                                  const at::Tensor& denom_bias, const OptionalTensor& state,
                                  c10::SymInt position) {
  if (c10::GradMode::is_enabled() &&
      (w.requires_grad() || temp.requires_grad() || denom_bias.requires_grad())) {
    const auto outputs = CausalFunction::apply(w, temp, denom_bias, state, position);
    return {outputs[0], outputs[1], outputs[2]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // no sums are kept
  return dispatch_causal(w, temp, denom_bias, state, std::move(position));
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, Autograd, m) {
  m.impl("tssa_causal", tssa_causal_autograd);
  m.impl("tssa_causal_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("tssa_causal_backward", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace tost
