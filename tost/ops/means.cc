// Group means: plain form, kernels and autograd, by the plain form for second gradients.
#include "tost/ops/means.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tost/base/error.h"
#include "tost/kernels/block_cache.h"
#include "tost/kernels/means.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/plain.h"

namespace tost {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor in_reading_order(const Tensor& x, int64_t heads, int64_t from_end) {
  if (from_end == 0 || !x.defined()) return x;
  const int64_t end = x.size(2) / heads * from_end, rest = x.size(2) - end;
  return at::cat({x.narrow(2, 0, rest), x.narrow(2, rest, end).flip(1)}, 2);
}

MeansCall in_reading_order(const MeansCall& call) {
  const auto turned = [&](const Tensor& x) {
    return in_reading_order(x, call.pi.size(2), call.from_end);
  };
  return {turned(call.base), turned(call.values), turned(call.gate), turned(call.pi),
          call.log_rates};
}

Tensor group_means_plain(const MeansCall& call, const Tensor& scale, Tensor* sums) {
  if (call.from_end > 0) {
    return in_reading_order(group_means_plain(in_reading_order(call), scale, sums), call.pi.size(2),
                            call.from_end);
  }
  const int64_t batch = call.values.size(0), tokens = call.values.size(1);
  const int64_t heads = call.pi.size(2), width = call.values.size(2) / heads;
  const auto type = tssa_accumulation_dtype(call.values.scalar_type());
  const auto values = call.values.to(type).reshape({batch, tokens, heads, width});
  const auto pi = call.pi.to(type).unsqueeze(3);  // [B, T, H, 1]
  const auto decay = call.log_rates.defined() ? call.log_rates.to(type).exp().view({1, heads, 1})
                                              : at::ones({1, heads, 1}, values.options());
  auto sum = at::zeros({batch, heads, width}, values.options());
  auto mass = at::zeros({batch, heads, 1}, values.options());
  if (sums != nullptr && sums->defined()) {
    sum = sums->narrow(2, 0, width).to(type);
    mass = sums->narrow(2, width, 1).to(type);
  }
  std::vector<Tensor> means;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto share = pi.select(1, t);  // [B, H, 1]
    sum = decay * sum + share * values.select(1, t);
    mass = decay * mass + share.square();
    means.push_back((sum * (mass + 1e-6).rsqrt()).reshape({batch, heads * width}));
  }
  if (sums != nullptr) *sums = at::cat({sum, mass}, 2).detach().to(at::kDouble);
  auto y = call.base.to(type);
  if (tokens > 0) y = y + at::stack(means, 1) * scale.to(type);
  if (call.gate.defined()) y = y * at::silu(call.gate.to(type));
  return y.to(call.values.scalar_type());
}

namespace {

// The inputs of the kernels, and the tensors that own the memory.
struct MeansTensors {
  MeansTensors(const MeansCall& call, const Tensor& scale_any)
      : base(adjacent_channels(call.base)),
        values(adjacent_channels(call.values)),
        gate(call.gate.defined() ? adjacent_channels(call.gate) : call.gate),
        pi(float_values(call.pi)),
        decay(call.log_rates.defined() ? call.log_rates.to(at::kDouble).exp().contiguous()
                                       : at::ones({pi.size(2)}, pi.options().dtype(at::kDouble))),
        scale(float_values(scale_any)) {
    for (const Tensor& x : {base, gate, pi, decay, scale}) {
      TORCH_CHECK(!x.defined() || x.is_cpu(), "group means are given a tensor on ", x.device());
    }
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

void check_sums(const Tensor& sums, const MeansTensors& t) {
  const auto& shape = t.in.shape;
  const std::vector<int64_t> wanted{shape.batch, shape.heads, shape.width + 1};
  if (sums.sizes().equals(wanted) && sums.scalar_type() == at::kDouble && sums.is_cpu()) {
    return;
  }
  fail_usage("The state of group means must be float64 ", at::IntArrayRef(wanted),
             " on the CPU, but is ", sums.scalar_type(), " ", sums.sizes(), " on ", sums.device(),
             "; read the same number of texts on, or start again.");
}

// Returns y, the sums after the last token, and with `keep` the sums before each chunk.
std::tuple<Tensor, Tensor, Tensor> run_means(const MeansCall& call, const Tensor& scale,
                                             const Tensor& sums, bool keep) {
  const MeansTensors t(call, scale);
  const auto& shape = t.in.shape;
  kernels::MeansForwardArgs args;
  args.in = t.in;
  Tensor before;
  if (sums.defined()) {
    check_sums(sums, t);
    before = sums.contiguous();
    args.state = before.const_data_ptr<double>();
  }
  const Tensor y = empty_cached(call.values.sizes(), call.values.scalar_type());
  const Tensor after = empty_cached({shape.batch, shape.heads, shape.width + 1}, at::kDouble);
  const int64_t chunks = keep ? kernels::causal_chunks(shape.tokens) : 0;
  const Tensor carry =
      empty_cached({shape.batch, chunks, shape.heads, shape.width + 1}, at::kFloat);
  args.y = tokens_out(y);
  args.next_state = after.mutable_data_ptr<double>();
  if (keep) args.carry = carry.mutable_data_ptr<float>();
  const ScratchBlock workspace(kernels::means_forward_workspace(args));
  kernels::means_forward(args, workspace.data(), torch_parallel);
  return {y, after, carry};
}

struct MeansGradients {
  Tensor base, gate, values, pi, decay, scale;  // base and gate: undefined without a gate
};

MeansGradients means_gradients(const MeansCall& call, const Tensor& scale, const Tensor& carry,
                               const Tensor& grad_any) {
  const MeansTensors t(call, scale);
  const Tensor grad_y = adjacent_channels(grad_any.to(t.values.scalar_type()));
  const auto like = [](const Tensor& x) {
    return x.defined() ? empty_cached(x.sizes(), x.scalar_type()) : Tensor();
  };
  const MeansGradients grads{like(t.gate), like(t.gate),  like(t.values),
                             like(t.pi),   like(t.decay), like(t.scale)};
  kernels::MeansBackwardArgs args;
  args.in = t.in;
  args.carry = carry.const_data_ptr<float>();
  args.grad_y = tokens_in(grad_y);
  args.grad_values = tokens_out(grads.values);
  if (t.gate.defined()) {
    args.grad_base = tokens_out(grads.base);
    args.grad_gate = tokens_out(grads.gate);
  }
  args.grad_pi = grads.pi.mutable_data_ptr<float>();
  args.grad_scale = grads.scale.mutable_data_ptr<float>();
  args.grad_decay = grads.decay.mutable_data_ptr<double>();
  const ScratchBlock workspace(kernels::means_backward_workspace(args));
  kernels::means_backward(args, workspace.data(), torch_parallel);
  return grads;
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
    const MeansCall call{base,    values, gate.value_or(Tensor()), pi, log_rates.value_or(Tensor()),
                         from_end};
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
    const MeansGradients found = means_gradients(call, saved[5], saved[6], grads[0]);
    const bool gated = call.gate.defined();
    Tensor grad_rates;
    if (call.log_rates.defined()) {
      const Tensor decay = call.log_rates.to(at::kDouble).exp();
      grad_rates = (found.decay * decay).to(call.log_rates.scalar_type());
    }
    return {gated ? found.base : grads[0],
            found.values,
            found.gate,
            found.pi.to(call.pi.scalar_type()),
            grad_rates,
            found.scale.to(saved[5].scalar_type()),
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
  return (dtype == at::kFloat || dtype == at::kBFloat16) && values.is_cpu() &&
         call.base.scalar_type() == dtype &&
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
  const at::AutoDispatchBelowADInplaceOrView below;  // nothing is saved for backward
  auto [y, after, carry] = run_means(call, scale, state_of(sums), /*keep=*/false);
  if (sums != nullptr) *sums = after;
  return y;
}

}  // namespace tost
