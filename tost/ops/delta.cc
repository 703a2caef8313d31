// The gated delta rule: plain form, kernels and autograd, by the plain form for second gradients.
#include "tost/ops/delta.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "tost/base/error.h"
#include "tost/kernels/block_cache.h"
#include "tost/kernels/delta.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/plain.h"

namespace tost {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

void check_delta(const DeltaCall& c, const Tensor& state) {
  const auto q = c.q.sizes(), v = c.v.sizes();
  bool fits = q.size() == 4 && v.size() == 4 && c.k.sizes() == q && v.slice(0, 3) == q.slice(0, 3);
  fits = fits && c.beta.sizes() == q.slice(0, 3);
  fits = fits && (!c.log_decay.defined() || c.log_decay.sizes() == q.slice(0, 3));
  fits = fits && (!state.defined() || state.sizes() == at::IntArrayRef{q[0], q[1], q[3], v[3]});
  if (fits) return;
  fail_usage(
      "The delta rule needs q and k [B, H, T, K], v [B, H, T, V], beta and log decay [B, H, T] ",
      "and a state [B, H, K, V], but is given q ", q, ", k ", c.k.sizes(), ", v ", v, ", beta ",
      c.beta.sizes(), ", log decay ",
      c.log_decay.defined() ? c.log_decay.sizes() : at::IntArrayRef(), ", state ",
      state.defined() ? state.sizes() : at::IntArrayRef(), ".");
}

// The arguments of the kernels, and the tensors that own the memory.
struct DeltaTensors {
  explicit DeltaTensors(const DeltaCall& call)
      : q(adjacent(call.q)),
        k(adjacent(call.k)),
        v(adjacent(call.v)),
        beta(call.beta.to(at::kFloat)),
        log_decay(call.log_decay.defined() ? call.log_decay.to(at::kFloat) : Tensor()) {
    args.samples = q.size(0), args.heads = q.size(1), args.tokens = q.size(2);
    args.keys = q.size(3), args.values = v.size(3);
    args.dtype = kernel_dtype(q);
    args.q = in(q), args.k = in(k), args.v = in(v), args.beta = in(beta);
    if (log_decay.defined()) args.log_decay = in(log_decay);
  }

  static Tensor adjacent(const Tensor& x) { return x.stride(3) == 1 ? x : x.contiguous(); }
  static kernels::ConstHeads in(const Tensor& x) {
    return {x.const_data_ptr(), x.stride(0), x.stride(2), x.stride(1)};
  }
  // An empty result with the shape of x; in memory, tokens come before heads.
  static Tensor like(const Tensor& x, kernels::Heads& out) {
    auto sizes = x.transpose(1, 2).sizes().vec();
    const Tensor result = empty_cached(sizes, x.scalar_type()).transpose(1, 2);
    out = {result.mutable_data_ptr(), result.stride(0), result.stride(2), result.stride(1)};
    return result;
  }

  Tensor q, k, v, beta, log_decay;
  kernels::DeltaArgs args;
};

// Returns o and, with `keep`, the states before each chunk; `state` is replaced.
std::tuple<Tensor, Tensor> run_delta(const DeltaCall& call, Tensor& state, bool keep) {
  DeltaTensors t(call);
  auto& args = t.args;
  const Tensor before = state.defined() ? float_values(state) : state;
  if (before.defined()) args.state = before.const_data_ptr<float>();
  state = empty_cached({args.samples, args.heads, args.keys, args.values}, at::kFloat);
  args.next_state = state.mutable_data_ptr<float>();
  const Tensor carry = empty_cached({keep ? kernels::delta_carry_size(args) : 0}, at::kFloat);
  if (keep) args.carry = carry.mutable_data_ptr<float>();
  const Tensor o = t.like(t.v, args.o);
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::delta_workspace(args, /*backward=*/false, threads));
  kernels::delta_forward(args, workspace.data(), torch_parallel, threads);
  return {o, carry};
}

class DeltaFunction : public torch::autograd::Function<DeltaFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& beta, const std::optional<Tensor>& log_decay, Tensor* state) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const DeltaCall call{q, k, v, beta, log_decay.value_or(Tensor())};
    const Tensor before = *state;
    auto [o, carry] = run_delta(call, *state, /*keep=*/true);
    context->save_for_backward({q, k, v, beta, call.log_decay, carry, before});
    return o;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const DeltaCall call{saved[0], saved[1], saved[2], saved[3], saved[4]};
    if (c10::GradMode::is_enabled()) {
      Tensor state = saved[6];
      return plain_gradients({gated_delta_plain(call, state)},
                             {call.q, call.k, call.v, call.beta, call.log_decay, {}}, grads);
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    DeltaTensors t(call);
    auto& args = t.args;
    const Tensor grad_o = t.adjacent(grads[0].to(t.v.scalar_type()));
    args.carry = saved[5].mutable_data_ptr<float>();
    args.grad_o = t.in(grad_o);
    const Tensor q = t.like(t.q, args.grad_q), k = t.like(t.k, args.grad_k);
    const Tensor v = t.like(t.v, args.grad_v), beta = t.like(t.beta, args.grad_beta);
    Tensor log_decay;
    if (t.log_decay.defined()) log_decay = t.like(t.log_decay, args.grad_log_decay);
    const int threads = torch_threads();
    const ScratchBlock workspace(kernels::delta_workspace(args, /*backward=*/true, threads));
    kernels::delta_backward(args, workspace.data(), torch_parallel, threads);
    if (log_decay.defined()) log_decay = log_decay.to(call.log_decay.scalar_type());
    return {q, k, v, beta.to(call.beta.scalar_type()), log_decay, Tensor()};
  }
};

}  // namespace

Tensor gated_delta_plain(const DeltaCall& call, Tensor& state) {
  const auto type = tssa_accumulation_dtype(call.v.scalar_type());
  const auto chunks = [&](const Tensor& x) { return x.to(type).split(64, 2); };
  const auto qs = chunks(call.q), ks = chunks(call.k), vs = chunks(call.v);
  const auto betas = chunks(call.beta.unsqueeze(3));
  const Tensor log_decay = call.log_decay.defined() ? call.log_decay : at::zeros_like(call.beta);
  const auto log_decays = chunks(log_decay.unsqueeze(3));
  const int64_t keys = call.k.size(3), values = call.v.size(3);
  if (!state.defined()) state = at::zeros({keys, values}, vs[0].options());
  state = state.to(type).expand({call.k.size(0), call.k.size(1), keys, values});
  if (call.v.size(2) == 0) return call.v;
  std::vector<Tensor> out;
  for (size_t i = 0; i < qs.size(); ++i) {
    const Tensor &q = qs[i], &k = ks[i], turned = k.transpose(2, 3);
    const Tensor sum = log_decays[i].cumsum(2), since = sum.exp();
    const Tensor total = sum.narrow(2, sum.size(2) - 1, 1);
    // Masks before the exponential, because later tokens would overflow.
    const Tensor decay = (sum - sum.transpose(2, 3)).tril().exp().tril();
    const Tensor system = (at::matmul(k, turned) * decay * betas[i]).tril(-1);
    const Tensor rest = betas[i] * (vs[i] - at::matmul(k, state) * since);
    const Tensor u = at::linalg_solve_triangular(system, rest, /*upper=*/false, /*left=*/true,
                                                 /*unitriangular=*/true);
    out.push_back(at::matmul(q, state) * since + at::matmul(at::matmul(q, turned) * decay, u));
    state = state * total.exp() + at::matmul((k * (total - sum).exp()).transpose(2, 3), u);
  }
  return at::cat(out, 2).to(call.v.scalar_type());
}

Tensor gated_delta(const DeltaCall& call, Tensor& state) {
  check_delta(call, state);
  const auto type = call.v.scalar_type();
  bool fused = type == at::kFloat || type == at::kBFloat16, gradient = false;
  for (const Tensor& x : {call.q, call.k, call.v, call.beta, call.log_decay, state}) {
    fused = fused && (!x.defined() || x.is_cpu());
    gradient = gradient || (x.defined() && x.requires_grad());
  }
  fused = fused && call.q.scalar_type() == type && call.k.scalar_type() == type &&
          !(state.defined() && state.requires_grad());
  if (!fused) return gated_delta_plain(call, state);
  if (gradient && c10::GradMode::is_enabled()) {
    return DeltaFunction::apply(call.q, call.k, call.v, call.beta, if_defined(call.log_decay),
                                &state);
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // nothing is saved for backward
  return std::get<0>(run_delta(call, state, /*keep=*/false));
}

}  // namespace tost
