// Group means for autograd: the kernels, and the plain form where gradients are differentiated
// again.
#include "tost/ops/group_means.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tost/base/error.h"
#include "tost/kernels/group_means.h"
#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/plain_gradients.h"

namespace tost {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

Tensor adjacent_or_none(const Tensor& x) {
  return x.defined() ? adjacent_channels(x) : x;
}

// The kernels' arguments; what they point to lives here.
struct MeansTensors {
  MeansTensors(const MeansCall& call, const Tensor& scale_any)
      : base(adjacent_channels(call.base)),
        values(adjacent_channels(call.values)),
        gate(adjacent_or_none(call.gate)),
        pi(float_values(call.pi)),
        decay(call.log_rates.defined() ? call.log_rates.to(at::kDouble).exp().contiguous()
                                       : at::ones({call.pi.size(2)}, at::kDouble)),
        scale(float_values(scale_any)) {
    in.shape = shape_of(values, pi.size(2));
    in.dtype = kernel_dtype(values);
    in.values = tokens_in(values);
    in.base = tokens_in(base);
    if (gate.defined()) in.gate = tokens_in(gate);
    in.pi = pi.const_data_ptr<float>();
    in.decay = decay.const_data_ptr<double>();
    in.scale = scale.const_data_ptr<float>();
    in.from_end = call.from_end;
  }

  Tensor base, values, gate, pi, decay, scale;
  kernels::MeansInputs in;
};

void check_sums(const Tensor& sums, const kernels::TssaShape& shape) {
  const std::vector<int64_t> wanted{shape.batch, shape.heads, shape.width + 1};
  if (sums.sizes().equals(wanted) && sums.scalar_type() == at::kDouble && sums.is_cpu()) return;
  fail_usage("The state of group means must be float64 ", at::IntArrayRef(wanted), ", but is ",
             sums.scalar_type(), " ", sums.sizes(),
             "; read the same number of texts on, or start again.");
}

// y; the sums before each chunk into `carry` unless it is null.
Tensor run_means(const MeansTensors& t, Tensor* sums, Tensor* carry) {
  const auto& shape = t.in.shape;
  const int64_t heads = shape.heads, numbers = shape.width + 1;
  kernels::MeansForwardArgs args;
  args.in = t.in;
  Tensor y = empty_cached(t.values.sizes(), t.values.scalar_type()), before, after;
  args.y = tokens_out(y);
  if (sums != nullptr) {
    if (sums->defined()) {
      check_sums(*sums, shape);
      before = sums->contiguous();
    }
    after = at::empty({shape.batch, heads, numbers}, at::kDouble);
    if (before.defined()) args.state = before.const_data_ptr<double>();
    args.next_state = after.mutable_data_ptr<double>();
  }
  if (carry != nullptr) {
    const int64_t chunks = kernels::causal_chunks(shape.tokens);
    *carry = at::empty({shape.batch, chunks, heads, numbers}, at::kFloat);
    args.carry = carry->mutable_data_ptr<float>();
  }
  const ScratchBlock workspace(kernels::means_forward_workspace(args));
  kernels::means_forward(args, workspace.data(), torch_parallel);
  if (sums != nullptr) *sums = after;
  return y;
}

class MeansFunction : public torch::autograd::Function<MeansFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& base, const Tensor& values,
                        const std::optional<Tensor>& gate, const Tensor& pi,
                        const std::optional<Tensor>& log_rates, const Tensor& scale,
                        int64_t from_end, Tensor* sums) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const MeansCall call{base,    values, gate.value_or(Tensor()), pi, log_rates.value_or(Tensor()),
                         from_end};
    context->saved_data["from_end"] = from_end;
    const Tensor state = sums != nullptr && sums->defined() ? *sums : Tensor();
    Tensor carry;
    Tensor y = run_means({call, scale}, sums, &carry);
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
    const MeansTensors t(call, saved[5]);
    const Tensor grad_y = adjacent_channels(grads[0].to(t.values.scalar_type()));
    const auto like = [&] { return empty_cached(t.values.sizes(), t.values.scalar_type()); };
    Tensor grad_values = like(), grad_base = t.gate.defined() ? like() : grad_y;
    Tensor grad_gate = t.gate.defined() ? like() : Tensor();
    Tensor grad_pi = at::empty_like(t.pi), grad_scale = at::empty_like(t.scale);
    Tensor grad_decay = at::empty_like(t.decay);
    kernels::MeansBackwardArgs args;
    args.in = t.in;
    args.carry = saved[6].const_data_ptr<float>();
    args.grad_y = tokens_in(grad_y);
    args.grad_values = tokens_out(grad_values);
    if (t.gate.defined()) {
      args.grad_base = tokens_out(grad_base);
      args.grad_gate = tokens_out(grad_gate);
    }
    args.grad_pi = grad_pi.mutable_data_ptr<float>();
    args.grad_scale = grad_scale.mutable_data_ptr<float>();
    args.grad_decay = grad_decay.mutable_data_ptr<double>();
    const ScratchBlock workspace(kernels::means_backward_workspace(args));
    kernels::means_backward(args, workspace.data(), torch_parallel);
    Tensor grad_rates;
    if (call.log_rates.defined()) {
      grad_rates = (grad_decay * t.decay).to(call.log_rates.scalar_type());
    }
    return {grad_base,  grad_values,
            grad_gate,  grad_pi.to(call.pi.scalar_type()),
            grad_rates, grad_scale.to(saved[5].scalar_type()),
            Tensor(),   Tensor()};
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
  const auto dtype = call.values.scalar_type();
  return call.values.is_cpu() && (dtype == at::kFloat || dtype == at::kBFloat16) &&
         call.base.scalar_type() == dtype &&
         (!call.gate.defined() || call.gate.scalar_type() == dtype);
}

Tensor group_means(const MeansCall& call, const Tensor& scale, Tensor* sums) {
  if (sums != nullptr && call.from_end > 0) {
    fail_usage("Group means that read from the end (", call.from_end,
               " heads) have no sums to continue; give the whole text.");
  }
  if (wants_gradient(call, scale)) {
    const auto given = [](const Tensor& x) {
      return x.defined() ? std::optional<Tensor>(x) : std::nullopt;
    };
    return MeansFunction::apply(call.base, call.values, given(call.gate), call.pi,
                                given(call.log_rates), scale, call.from_end, sums);
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // nothing is kept for backward
  return run_means({call, scale}, sums, nullptr);
}

}  // namespace tost
