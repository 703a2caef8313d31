// tssa_means and its derivative for autograd.
#include "tost/ops/tssa_means.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/inner_operator.h"
#include "tost/ops/kernel_args.h"
#include "tost/ops/plain_gradients.h"
#include "tost/ops/tssa.h"
#include "tost/ops/tssa_check.h"

namespace tost {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

bool fused_here(const at::Tensor& w) {
  return w.is_cpu() && w.scalar_type() != at::kDouble;
}

TssaForwardCall forward_call(const at::Tensor& w, const at::Tensor& temp,
                             const OptionalTensor& lengths, const TssaAdditions& additions,
                             bool keep) {
  check_tssa_inputs(w, temp, lengths);
  TssaForwardCall call(w, temp, lengths_in_range(lengths, w.size(1)), keep, empty_cached,
                       additions);
  const ScratchBlock workspace(kernels::tssa_forward_workspace(call.args));
  kernels::tssa_forward(call.args, workspace.data(), torch_parallel, torch_threads());
  return call;
}

class TssaMeansFunction : public torch::autograd::Function<TssaMeansFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& w,
                               const at::Tensor& temp, const OptionalTensor& lengths, bool means,
                               bool length_free) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto call = forward_call(w, temp, lengths, {means, length_free}, /*keep=*/true);
    context->save_for_backward({w, temp, call.pi, call.energy, call.moment, call.pi_sum, call.mean,
                                lengths.value_or(at::Tensor())});
    context->saved_data["means"] = means;
    context->saved_data["length_free"] = length_free;
    context->set_materialize_grads(false);
    return {call.y, call.pi};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    if (!grads[0].defined() && !grads[1].defined()) return variable_list(5);
    const auto saved = context->get_saved_variables();
    const at::Tensor &w = saved[0], &temp = saved[1];
    const TssaAdditions additions{context->saved_data["means"].toBool(),
                                  context->saved_data["length_free"].toBool()};
    if (c10::GradMode::is_enabled()) {
      const auto [y, pi] = tssa_means_plain(w, temp, if_defined(saved[7]), additions);
      const at::Tensor none;
      return plain_gradients({y, pi}, {w, temp, none, none, none}, grads);
    }
    const auto own = lengths_in_range(if_defined(saved[7]), w.size(1));
    TssaBackwardCall call(if_defined(grads[0]), if_defined(grads[1]), w, temp,
                          {saved[2], saved[3], saved[4], saved[5], saved[6]}, own, empty_cached,
                          additions);
    const ScratchBlock workspace(kernels::tssa_backward_workspace(call.args));
    kernels::tssa_backward(call.args, workspace.data(), torch_parallel, torch_threads());
    return {call.grad_w, call.grad_temp.to(temp.scalar_type()), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor> tssa_means(const at::Tensor& w, const at::Tensor& temp,
                                              const OptionalTensor& lengths,
                                              const TssaAdditions& additions) {
  if (!additions.means && !additions.length_free) return tssa(w, temp, lengths);
  if (!fused_here(w)) return tssa_means_plain(w, temp, lengths, additions);
  const auto own = given(lengths) ? lengths : std::nullopt;
  if (c10::GradMode::is_enabled() && (w.requires_grad() || temp.requires_grad())) {
    const auto outputs =
        TssaMeansFunction::apply(w, temp, own, additions.means, additions.length_free);
    return {outputs[0], outputs[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // no statistics are kept
  const auto call = forward_call(w, temp, own, additions, /*keep=*/false);
  return {call.y, call.pi};
}

}  // namespace tost
