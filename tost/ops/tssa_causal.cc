// The operator tssa_causal, in the order of a call: checks, autograd, CPU kernels; then shapes for
// compilers. The schema is in schemas.h.
#include "tost/ops/tssa_causal.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "tost/base/error.h"
#include "tost/kernels/tssa_causal.h"
#include "tost/kernels/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_args.h"

namespace tost {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The tensors y, pi and state, or the gradients of w, temp and denom_bias.
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

ThreeTensors tssa_causal(const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
                         const OptionalTensor& state, c10::SymInt position) {
  static const auto op = inner_operator<decltype(tssa_causal)>("tost::tssa_causal");
  return op.call(w, temp, denom_bias, state, std::move(position));
}

// ---- Checks ----

void check_tssa_causal_inputs(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const OptionalTensor& state,
                              const c10::SymInt& position) {
  check_tssa_inputs(w, temp);
  const auto heads = temp.sym_size(0);
  if (denom_bias.dim() != 3 || denom_bias.sym_size(0) != heads || denom_bias.sym_size(2) != 1) {
    fail_usage("tssa_causal: denom_bias must be [heads, positions, 1] with ", heads,
               " heads, but is ", denom_bias.sym_sizes(), ".");
  }
  if (!denom_bias.is_floating_point()) {
    fail_usage("tssa_causal: denom_bias must be of a floating-point dtype, but is ",
               denom_bias.scalar_type(), ".");
  }
  if (denom_bias.device() != w.device()) {
    fail_usage("tssa_causal: w is on ", w.device(), " but denom_bias on ", denom_bias.device(),
               "; move one of them.");
  }
  if (position < 0) {
    fail_usage("tssa_causal: position is ", position, "; it counts the tokens before w.");
  }
  if (!state.has_value()) return;
  const auto numbers = 2 * w.sym_size(2) + heads;
  if (state->dim() != 2 || state->sym_size(0) != w.sym_size(0) || state->sym_size(1) != numbers) {
    fail_usage("tssa_causal: state must be [batch, 2 channels + heads] = [", w.sym_size(0), ", ",
               numbers, "], but is ", state->sym_sizes(), ".");
  }
  if (state->scalar_type() != at::kDouble) {
    fail_usage("tssa_causal: state must be float64, but is ", state->scalar_type(), ".");
  }
  if (state->device() != w.device()) {
    fail_usage("tssa_causal: w is on ", w.device(), " but state on ", state->device(),
               "; move one of them.");
  }
}

namespace {

// ---- Autograd ----

// Returns y, pi, the state after the last token, and for backward the sums before each chunk
// (kernels/tssa_causal.h): carry [B, chunks, 2 C] float32 and pi_carry [B, chunks, H] float64.
ForwardResult causal_forward_op(const at::Tensor& w, const at::Tensor& temp,
                                const at::Tensor& denom_bias, const OptionalTensor& state,
                                c10::SymInt position) {
  static const auto op = inner_operator<decltype(causal_forward_op)>("tost::tssa_causal_forward");
  return op.call(w, temp, denom_bias, state, std::move(position));
}

ThreeTensors causal_backward_op(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                                const at::Tensor& w, const at::Tensor& temp,
                                const at::Tensor& denom_bias, c10::SymInt position,
                                const at::Tensor& pi, const at::Tensor& carry,
                                const at::Tensor& pi_carry) {
  static const auto op = inner_operator<decltype(causal_backward_op)>("tost::tssa_causal_backward");
  return op.call(grad_y, grad_pi, w, temp, denom_bias, std::move(position), pi, carry, pi_carry);
}

class CausalFunction : public torch::autograd::Function<CausalFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& w,
                               const at::Tensor& temp, const at::Tensor& denom_bias,
                               const OptionalTensor& state, const c10::SymInt& position) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, pi, after, carry, pi_carry] =
        causal_forward_op(w, temp, denom_bias, state, position);
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
          tssa_causal_plain(saved[0], saved[1], saved[2], if_defined(saved[6]), position);
      return plain_gradients({y, pi}, {saved[0], saved[1], saved[2], at::Tensor(), at::Tensor()},
                             grads);
    }
    std::tie(result[0], result[1], result[2]) =
        causal_backward_op(if_defined(grads[0]), if_defined(grads[1]), saved[0], saved[1], saved[2],
                           position, saved[3], saved[4], saved[5]);
    return result;
  }
};

ThreeTensors tssa_causal_autograd(const at::Tensor& w, const at::Tensor& temp,
                                  const at::Tensor& denom_bias, const OptionalTensor& state,
                                  c10::SymInt position) {
  if (!by_kernels(w)) return tssa_causal_plain(w, temp, denom_bias, state, position);
  if (c10::GradMode::is_enabled() &&
      (w.requires_grad() || temp.requires_grad() || denom_bias.requires_grad())) {
    const auto outputs = CausalFunction::apply(w, temp, denom_bias, state, position);
    return {outputs[0], outputs[1], outputs[2]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // no sums are stored
  return tssa_causal(w, temp, denom_bias, state, std::move(position));
}

// ---- CPU ----

// Calls the kernels; with `keep` also returns the sums before each chunk, for backward.
ForwardResult causal_on_cpu(const at::Tensor& w_any, const at::Tensor& temp_any,
                            const at::Tensor& denom_bias, const OptionalTensor& before,
                            int64_t position, bool keep) {
  check_tssa_causal_inputs(w_any, temp_any, denom_bias, before, position);
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const auto bias = float_values(denom_bias);
  const auto state = is_defined(before) ? before->contiguous() : at::Tensor();
  const int64_t batch = w.size(0), heads = temp.size(0);
  kernels::CausalForwardArgs args;
  set_inputs(args, w, temp);
  const auto y = empty_cached(w.sizes(), w.scalar_type());
  const auto pi = empty_cached({batch, heads, w.size(1)}, at::kFloat);
  const auto after = empty_cached({batch, kernels::causal_state_size(args.shape)}, at::kDouble);
  args.bias = {bias.const_data_ptr<float>(), bias.size(1), position};
  args.state = state.defined() ? state.const_data_ptr<double>() : nullptr;
  args.y = tokens_out(y);
  args.next_state = after.mutable_data_ptr<double>();
  args.pi = pi.mutable_data_ptr<float>();
  at::Tensor carry, pi_carry;
  if (keep) {
    const int64_t chunks = kernels::causal_chunks(w.size(1));
    carry = empty_cached({batch, chunks, 2 * w.size(2)}, at::kFloat);
    pi_carry = empty_cached({batch, chunks, heads}, at::kDouble);
    args.carry = carry.mutable_data_ptr<float>();
    args.pi_carry = pi_carry.mutable_data_ptr<double>();
  }
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::causal_forward_workspace(args, threads));
  kernels::causal_forward(args, workspace.data(), torch_parallel, threads);
  return {y, pi, after, carry, pi_carry};
}

ThreeTensors tssa_causal_cpu(const at::Tensor& w, const at::Tensor& temp,
                             const at::Tensor& denom_bias, const OptionalTensor& state,
                             int64_t position) {
  if (!by_kernels(w)) return tssa_causal_plain(w, temp, denom_bias, state, position);
  const auto [y, pi, after, carry, pi_carry] =
      causal_on_cpu(w, temp, denom_bias, state, position, false);
  return {y, pi, after};
}

ForwardResult tssa_causal_forward_cpu(const at::Tensor& w, const at::Tensor& temp,
                                      const at::Tensor& denom_bias, const OptionalTensor& state,
                                      int64_t position) {
  return causal_on_cpu(w, temp, denom_bias, state, position, true);
}

ThreeTensors tssa_causal_backward_cpu(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                                      const at::Tensor& w_any, const at::Tensor& temp_any,
                                      const at::Tensor& denom_bias, int64_t position,
                                      const at::Tensor& pi_any, const at::Tensor& carry_any,
                                      const at::Tensor& pi_carry_any) {
  check_tssa_causal_inputs(w_any, temp_any, denom_bias, std::nullopt, position);
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const auto bias = float_values(denom_bias);
  const auto gy = tokens_gradient(grad_y, w), gpi = membership_gradient(grad_pi);
  const auto pi = pi_any.contiguous();
  const auto carry = carry_any.contiguous(), pi_carry = pi_carry_any.contiguous();
  const auto grad_w = empty_cached(w.sizes(), w.scalar_type());
  const auto grad_temp = empty_cached(temp.sizes(), at::kFloat);
  const auto grad_bias = empty_cached(bias.sizes(), at::kFloat);
  kernels::CausalBackwardArgs args;
  set_inputs(args, w, temp);
  args.grad_y = tokens_in(gy);
  args.grad_pi = floats_or_null(gpi);
  args.bias = {bias.const_data_ptr<float>(), bias.size(1), position};
  args.pi = pi.const_data_ptr<float>();
  args.carry = carry.const_data_ptr<float>();
  args.pi_carry = pi_carry.const_data_ptr<double>();
  args.grad_w = tokens_out(grad_w);
  args.grad_temp = grad_temp.mutable_data_ptr<float>();
  args.grad_bias = grad_bias.mutable_data_ptr<float>();
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::causal_backward_workspace(args, threads));
  kernels::causal_backward(args, workspace.data(), torch_parallel, threads);
  return {grad_w, grad_temp.to(temp_any.scalar_type()), grad_bias.to(denom_bias.scalar_type())};
}

// ---- Meta ----

ForwardResult tssa_causal_forward_meta(const at::Tensor& w, const at::Tensor& temp,
                                       const at::Tensor& denom_bias, const OptionalTensor& state,
                                       c10::SymInt position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  const auto batch = w.sym_size(0), tokens = w.sym_size(1), channels = w.sym_size(2),
             heads = temp.sym_size(0);
  const auto chunks = (tokens + (kernels::kCausalChunk - 1)) / kernels::kCausalChunk;
  const auto wide = w.options().dtype(tssa_accumulation_dtype(w.scalar_type()));
  const auto widest = w.options().dtype(at::kDouble);
  return {at::empty_symint({batch, tokens, channels}, w.options()),
          at::empty_symint({batch, heads, tokens}, wide),
          at::empty_symint({batch, 2 * channels + heads}, widest),
          at::empty_symint({batch, chunks, 2 * channels}, wide),
          at::empty_symint({batch, chunks, heads}, widest)};
}

ThreeTensors tssa_causal_meta(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const OptionalTensor& state,
                              c10::SymInt position) {
  const auto [y, pi, after, carry, pi_carry] =
      tssa_causal_forward_meta(w, temp, denom_bias, state, position);
  return {y, pi, after};
}

ThreeTensors tssa_causal_backward_meta(const OptionalTensor&, const OptionalTensor&,
                                       const at::Tensor& w, const at::Tensor& temp,
                                       const at::Tensor& denom_bias, c10::SymInt position,
                                       const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  check_tssa_causal_inputs(w, temp, denom_bias, std::nullopt, position);
  const auto like = [](const at::Tensor& x) {
    return at::empty_symint(x.sym_sizes(), x.options());
  };
  return {like(w), like(temp), like(denom_bias)};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, Autograd, m) {
  m.impl("tssa_causal", tssa_causal_autograd);
  m.impl("tssa_causal_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("tssa_causal_backward", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(tost, CompositeExplicitAutograd, m) {
  m.impl("tssa_causal", tssa_causal_plain);
}
TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa_causal", tssa_causal_cpu);
  m.impl("tssa_causal_forward", tssa_causal_forward_cpu);
  m.impl("tssa_causal_backward", tssa_causal_backward_cpu);
}
TORCH_LIBRARY_IMPL(tost, Meta, m) {
  m.impl("tssa_causal", tssa_causal_meta);
  m.impl("tssa_causal_forward", tssa_causal_forward_meta);
  m.impl("tssa_causal_backward", tssa_causal_backward_meta);
}

}  // namespace tost
