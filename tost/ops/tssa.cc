// The operator tssa, in the order of a call: schema, checks, autograd, CPU kernels; then shapes for
// compilers. If no kernel supports w, the plain form runs.
#include "tost/ops/tssa.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "tost/base/error.h"
#include "tost/kernels/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_args.h"
#include "tost/ops/schemas.h"

namespace tost {

using torch::autograd::variable_list;

// ---- Schema ----

TORCH_LIBRARY(tost, m) {
  for (const char* schema : kTssaSchemas) m.def(schema);
}

std::tuple<at::Tensor, at::Tensor> tssa(const at::Tensor& w, const at::Tensor& temp,
                                        const OptionalTensor& lengths) {
  static const auto op = inner_operator<decltype(tssa)>("tost::tssa");
  return op.call(w, temp, is_defined(lengths) ? lengths : std::nullopt);
}

// ---- Checks ----

void check_tssa_heads(const at::Tensor& w, const c10::SymInt& heads) {
  if (w.dim() != 3) {
    fail_usage("tssa: w must be [batch, tokens, channels], but has ", w.dim(), " dimensions.");
  }
  const auto dtype = w.scalar_type();
  // float16 is allowed on a GPU, and on meta tensors, from which compilers get shapes.
  const bool half = dtype == at::kHalf && (w.is_cuda() || w.is_meta());
  if (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kDouble && !half) {
    fail_usage("tssa: w must be float32, bfloat16 or float64, but is ", dtype, ".");
  }
  const auto channels = w.sym_size(2);
  if (heads < 1 || channels < 1 || channels % heads != 0) {
    fail_usage("tssa: the ", channels, " channels of w cannot be split over ", heads,
               " heads; choose a number of heads that divides the channels.");
  }
}

void check_tssa_lengths(const at::Tensor& w, const OptionalTensor& lengths) {
  if (!is_defined(lengths)) return;
  if (lengths->dim() != 1 || lengths->sym_size(0) != w.sym_size(0)) {
    fail_usage("tssa: lengths must be [batch] = [", w.sym_size(0), "], but is ",
               lengths->sym_sizes(), ".");
  }
  if (lengths->scalar_type() != at::kLong) {
    fail_usage("tssa: lengths must be int64, but is ", lengths->scalar_type(), ".");
  }
  if (lengths->device() != w.device()) {
    fail_usage("tssa: w is on ", w.device(), " but lengths on ", lengths->device(),
               "; move one of them.");
  }
}

void check_tssa_inputs(const at::Tensor& w, const at::Tensor& temp, const OptionalTensor& lengths) {
  if (temp.dim() != 2 || temp.sym_size(1) != 1) {
    fail_usage("tssa: temp must be [heads, 1], but is ", temp.sym_sizes(), ".");
  }
  if (!temp.is_floating_point()) {
    fail_usage("tssa: temp must be of a floating-point dtype, but is ", temp.scalar_type(), ".");
  }
  if (temp.device() != w.device()) {
    fail_usage("tssa: w is on ", w.device(), " but temp on ", temp.device(), "; move one of them.");
  }
  check_tssa_heads(w, temp.sym_size(0));
  check_tssa_lengths(w, lengths);
}

namespace {

// Checks the lengths and returns them on the CPU, contiguous; undefined if there are none.
at::Tensor lengths_in_range(const OptionalTensor& lengths, int64_t tokens) {
  if (!is_defined(lengths)) return {};
  const auto adjacent = lengths->contiguous();
  const auto* values = adjacent.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < adjacent.numel(); ++i) {
    if (values[i] >= 0 && values[i] <= tokens) continue;
    fail_usage("tssa: lengths[", i, "] is ", values[i], "; it must be from 0 to the ", tokens,
               " tokens of w.");
  }
  return adjacent;
}

std::tuple<at::Tensor, at::Tensor> tssa_by_torch(const at::Tensor& w, const at::Tensor& temp,
                                                 const OptionalTensor& lengths) {
  // Checks values on the CPU only, because a read from a GPU would wait.
  if (is_defined(lengths) && lengths->is_cpu() &&
      !lengths->unsafeGetTensorImpl()->is_python_dispatch()) {
    check_tssa_inputs(w, temp, lengths);
    lengths_in_range(lengths, w.size(1));
  }
  return tssa_plain(w, temp, lengths);
}

// ---- Autograd ----

// Forward and backward are inner operators, so that compilers see each as one operator.
ForwardResult tssa_forward_op(const at::Tensor& w, const at::Tensor& temp,
                              const OptionalTensor& lengths) {
  static const auto op = inner_operator<decltype(tssa_forward_op)>("tost::tssa_forward");
  return op.call(w, temp, lengths);
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_op(
    const OptionalTensor& grad_y, const OptionalTensor& grad_pi, const at::Tensor& w,
    const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const OptionalTensor& lengths) {
  static const auto op = inner_operator<decltype(tssa_backward_op)>("tost::tssa_backward");
  return op.call(grad_y, grad_pi, w, temp, pi, energy, moment, pi_sum, lengths);
}

class TssaFunction : public torch::autograd::Function<TssaFunction> {
 public:
  static variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& w,
                               const at::Tensor& temp, const OptionalTensor& lengths) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, pi, energy, moment, pi_sum] = tssa_forward_op(w, temp, lengths);
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
        tssa_backward_op(if_defined(grads[0]), if_defined(grads[1]), saved[0], saved[1], saved[2],
                         saved[3], saved[4], saved[5], if_defined(saved[6]));
    return {w_grad, temp_grad, at::Tensor()};
  }
};

std::tuple<at::Tensor, at::Tensor> tssa_autograd(const at::Tensor& w, const at::Tensor& temp,
                                                 const OptionalTensor& lengths) {
  if (!by_kernels(w)) return tssa_by_torch(w, temp, lengths);
  if (c10::GradMode::is_enabled() && (w.requires_grad() || temp.requires_grad())) {
    const auto outputs = TssaFunction::apply(w, temp, lengths);
    return {outputs[0], outputs[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;  // no statistics are stored
  return tssa(w, temp, lengths);
}

// ---- CPU ----

// Calls the kernels; with `keep` also returns the sums that backward needs.
ForwardResult tssa_on_cpu(const at::Tensor& w_any, const at::Tensor& temp_any,
                          const OptionalTensor& lengths, bool keep) {
  check_tssa_inputs(w_any, temp_any, lengths);
  const auto valid = lengths_in_range(lengths, w_any.size(1));
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const int64_t batch = w.size(0), channels = w.size(2), heads = temp.size(0);
  const auto y = empty_cached(w.sizes(), w.scalar_type());
  const auto pi = empty_cached({batch, heads, w.size(1)}, at::kFloat);
  kernels::TssaForwardArgs args;
  set_inputs(args, w, temp);
  args.lengths = valid.defined() ? valid.const_data_ptr<int64_t>() : nullptr;
  args.y = tokens_out(y);
  args.pi = pi.mutable_data_ptr<float>();
  at::Tensor energy, moment, pi_sum;
  if (keep) {
    energy = empty_cached({batch, channels}, at::kFloat);
    moment = empty_cached({batch, channels}, at::kFloat);
    pi_sum = empty_cached({batch, heads}, at::kFloat);
    args.energy = energy.mutable_data_ptr<float>();
    args.moment = moment.mutable_data_ptr<float>();
    args.pi_sum = pi_sum.mutable_data_ptr<float>();
  }
  const ScratchBlock workspace(kernels::tssa_forward_workspace(args));
  kernels::tssa_forward(args, workspace.data(), torch_parallel, torch_threads());
  return {y, pi, energy, moment, pi_sum};
}

std::tuple<at::Tensor, at::Tensor> tssa_cpu(const at::Tensor& w, const at::Tensor& temp,
                                            const OptionalTensor& lengths) {
  if (!by_kernels(w)) return tssa_by_torch(w, temp, lengths);
  const auto [y, pi, energy, moment, pi_sum] = tssa_on_cpu(w, temp, lengths, false);
  return {y, pi};
}

ForwardResult tssa_forward_cpu(const at::Tensor& w, const at::Tensor& temp,
                               const OptionalTensor& lengths) {
  return tssa_on_cpu(w, temp, lengths, true);
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_cpu(
    const OptionalTensor& grad_y, const OptionalTensor& grad_pi, const at::Tensor& w_any,
    const at::Tensor& temp_any, const at::Tensor& pi_any, const at::Tensor& energy_any,
    const at::Tensor& moment_any, const at::Tensor& pi_sum_any, const OptionalTensor& lengths) {
  check_tssa_inputs(w_any, temp_any, lengths);
  const auto valid = lengths_in_range(lengths, w_any.size(1));
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const auto gy = tokens_gradient(grad_y, w), gpi = membership_gradient(grad_pi);
  const auto pi = pi_any.contiguous(), energy = energy_any.contiguous();
  const auto moment = moment_any.contiguous(), pi_sum = pi_sum_any.contiguous();
  const auto grad_w = empty_cached(w.sizes(), w.scalar_type());
  const auto grad_temp = empty_cached(temp.sizes(), at::kFloat);
  kernels::TssaBackwardArgs args;
  set_inputs(args, w, temp);
  args.grad_y = tokens_in(gy);
  args.grad_pi = floats_or_null(gpi);
  args.lengths = valid.defined() ? valid.const_data_ptr<int64_t>() : nullptr;
  args.pi = pi.const_data_ptr<float>();
  args.energy = energy.const_data_ptr<float>();
  args.moment = moment.const_data_ptr<float>();
  args.pi_sum = pi_sum.const_data_ptr<float>();
  args.grad_w = tokens_out(grad_w);
  args.grad_temp = grad_temp.mutable_data_ptr<float>();
  const ScratchBlock workspace(kernels::tssa_backward_workspace(args));
  kernels::tssa_backward(args, workspace.data(), torch_parallel, torch_threads());
  return {grad_w, grad_temp.to(temp_any.scalar_type())};
}

// ---- Meta: shapes, perhaps symbolic, for torch.compile, export and FakeTensor ----

ForwardResult tssa_forward_meta(const at::Tensor& w, const at::Tensor& temp,
                                const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto batch = w.sym_size(0), tokens = w.sym_size(1), channels = w.sym_size(2),
             heads = temp.sym_size(0);
  const auto wide = w.options().dtype(tssa_accumulation_dtype(w.scalar_type()));
  return {at::empty_symint({batch, tokens, channels}, w.options()),
          at::empty_symint({batch, heads, tokens}, wide), at::empty_symint({batch, channels}, wide),
          at::empty_symint({batch, channels}, wide), at::empty_symint({batch, heads}, wide)};
}

std::tuple<at::Tensor, at::Tensor> tssa_meta(const at::Tensor& w, const at::Tensor& temp,
                                             const OptionalTensor& lengths) {
  const auto [y, pi, energy, moment, pi_sum] = tssa_forward_meta(w, temp, lengths);
  return {y, pi};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_meta(const OptionalTensor&, const OptionalTensor&,
                                                      const at::Tensor& w, const at::Tensor& temp,
                                                      const at::Tensor&, const at::Tensor&,
                                                      const at::Tensor&, const at::Tensor&,
                                                      const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  return {at::empty_symint(w.sym_sizes(), w.options()),
          at::empty_symint(temp.sym_sizes(), temp.options())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, Autograd, m) {
  m.impl("tssa", tssa_autograd);
  m.impl("tssa_forward", torch::autograd::autogradNotImplementedFallback());
  m.impl("tssa_backward", torch::autograd::autogradNotImplementedFallback());
}
// Handles calls without autograd on devices without kernels.
TORCH_LIBRARY_IMPL(tost, CompositeExplicitAutograd, m) {
  m.impl("tssa", tssa_by_torch);
}
TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa", tssa_cpu);
  m.impl("tssa_forward", tssa_forward_cpu);
  m.impl("tssa_backward", tssa_backward_cpu);
}
TORCH_LIBRARY_IMPL(tost, Meta, m) {
  m.impl("tssa", tssa_meta);
  m.impl("tssa_forward", tssa_forward_meta);
  m.impl("tssa_backward", tssa_backward_meta);
}

}  // namespace tost
