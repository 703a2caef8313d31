// Group means for autograd: the kernels, and the plain form where gradients are differentiated
// again.
#include "tost/ops/group_means.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tost/base/error.h"
#include "tost/kernels/cuda/tssa_cuda.h"
#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/device.h"
#include "tost/ops/group_means_rows.h"
#include "tost/ops/inner_operator.h"
#include "tost/ops/plain_gradients.h"

namespace tost {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct MeansOnCpu {
  struct Guard {
    explicit Guard(at::Device) {}
  };
  static auto empty(const Tensor&) { return empty_cached; }
  static void run(const kernels::MeansForwardArgs& args, const Tensor&) {
    const ScratchBlock workspace(kernels::means_forward_workspace(args));
    kernels::means_forward(args, workspace.data(), torch_parallel);
  }
  static void run(const kernels::MeansBackwardArgs& args, const Tensor&) {
    const ScratchBlock workspace(kernels::means_backward_workspace(args));
    kernels::means_backward(args, workspace.data(), torch_parallel);
  }
};

// y, the sums after the last token, and those before each chunk.
auto run_means(const MeansCall& call, const Tensor& scale, const Tensor& sums, bool keep) {
  static const auto op =
      inner_operator<decltype(MeansRows<MeansOnCpu>::forward)>("tost::_means_forward");
  return op.call(call.base, call.values, if_defined(call.gate), call.pi, if_defined(call.log_rates),
                 scale, if_defined(sums), call.from_end, keep);
}

Tensor state_of(const Tensor* sums) {
  return sums != nullptr ? *sums : Tensor();
}

class MeansFunction : public torch::autograd::Function<MeansFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& base, const Tensor& values,
                        const std::optional<Tensor>& gate, const Tensor& pi,
                        const std::optional<Tensor>& log_rates, const Tensor& scale,
                        int64_t from_end, Tensor* sums) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const MeansCall call = means_call(base, values, gate, pi, log_rates, from_end);
    context->saved_data["from_end"] = from_end;
    const Tensor state = state_of(sums);
    auto [y, after, carry] = run_means(call, scale, state, /*keep=*/true);
    if (sums != nullptr) *sums = after;
    context->save_for_backward({base, values, call.gate, pi, call.log_rates, scale, carry, state});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const MeansCall call{saved[0], saved[1], saved[2],
                         saved[3], saved[4], context->saved_data["from_end"].toInt()};
    if (c10::GradMode::is_enabled()) {
      Tensor state = saved[7];
      const Tensor y = group_means_plain(call, saved[5], &state);
      return plain_gradients(
          {y}, {saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], {}, {}}, grads);
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op =
        inner_operator<decltype(MeansRows<MeansOnCpu>::backward)>("tost::_means_backward");
    const auto [grad_base, grad_gate, grad_values, grad_pi, grad_decay, grad_scale] =
        op.call(grads[0], call.base, call.values, if_defined(call.gate), call.pi,
                if_defined(call.log_rates), saved[5], saved[6], call.from_end);
    const bool gated = call.gate.defined();
    Tensor grad_rates;
    if (call.log_rates.defined()) {
      const Tensor decay = call.log_rates.to(at::kDouble).exp();
      grad_rates = (grad_decay * decay).to(call.log_rates.scalar_type());
    }
    return {gated ? grad_base : grads[0],
            grad_values,
            gated ? grad_gate : Tensor(),
            grad_pi.to(call.pi.scalar_type()),
            grad_rates,
            grad_scale.to(saved[5].scalar_type()),
            Tensor(),
            Tensor()};
  }
};

bool wants_gradient(const MeansCall& call, const Tensor& scale) {
  if (!c10::GradMode::is_enabled()) return false;
  for (const Tensor& x : {call.base, call.values, call.gate, call.pi, call.log_rates, scale}) {
    if (x.defined() && x.requires_grad()) return true;
  }
  return false;
}

}  // namespace

bool has_fused_means(const MeansCall& call) {
  const Tensor& values = call.values;
  const auto dtype = values.scalar_type();
  bool taken = dtype == at::kFloat || dtype == at::kBFloat16;
  if (values.is_cuda() && built_with_cuda()) {
    taken = (taken || dtype == at::kHalf) && gpu_has_kernels(values.device().index()) &&
            kernels::cuda::supports_causal(shape_of(values, call.pi.size(2)));
  }
  return taken && (values.is_cpu() || values.is_cuda()) && call.base.scalar_type() == dtype &&
         (!call.gate.defined() || call.gate.scalar_type() == dtype);
}

Tensor group_means(const MeansCall& call, const Tensor& scale, Tensor* sums) {
  if (sums != nullptr && call.from_end > 0) {
    fail_usage("Group means that read from the end (", call.from_end,
               " heads) have no sums to continue; give the whole text.");
  }
  if (wants_gradient(call, scale)) {
    return MeansFunction::apply(call.base, call.values, if_defined(call.gate), call.pi,
                                if_defined(call.log_rates), scale, call.from_end, sums);
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // nothing is kept for backward
  auto [y, after, carry] = run_means(call, scale, state_of(sums), /*keep=*/false);
  if (sums != nullptr) *sums = after;
  return y;
}

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  MeansRows<MeansOnCpu>::give_to(m);
}

}  // namespace tost
