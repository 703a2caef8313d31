// The causal operators on CPU: float32 and bfloat16 through the kernels, float64
// through ATen.
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "tost/kernels/tssa_causal.h"
#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/tssa_causal_inner.h"
#include "tost/ops/tssa_causal_plain.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

using CausalResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

kernels::CausalBias bias_of(const at::Tensor& values, int64_t position) {
  return {values.const_data_ptr<float>(), values.size(1), position};
}

// Fills the arguments but for the sums kept for backward, and runs.
CausalResult run_forward(const at::Tensor& w_any, const at::Tensor& temp_any,
                         const at::Tensor& denom_bias, const std::optional<at::Tensor>& state_any,
                         int64_t position, kernels::CausalForwardArgs& args) {
  const auto w = adjacent_channels(w_any);
  const auto temp = float_values(temp_any);
  const auto bias = float_values(denom_bias);
  const auto state = state_any.has_value() ? state_any->contiguous() : at::Tensor();
  args.shape = shape_of(w, temp.size(0));
  args.dtype = kernel_dtype(w);
  auto y = empty_cached(w.sizes(), w.scalar_type());
  auto pi = empty_cached({w.size(0), temp.size(0), w.size(1)}, at::kFloat);
  auto after = empty_cached({w.size(0), kernels::causal_state_size(args.shape)}, at::kDouble);
  args.w = tokens_in(w);
  args.temp = temp.const_data_ptr<float>();
  args.bias = bias_of(bias, position);
  args.state = state.defined() ? state.const_data_ptr<double>() : nullptr;
  args.y = tokens_out(y);
  args.next_state = after.mutable_data_ptr<double>();
  args.pi = pi.mutable_data_ptr<float>();
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::causal_forward_workspace(args, threads));
  kernels::causal_forward(args, workspace.data(), torch_parallel, threads);
  return {y, pi, after};
}

CausalResult tssa_causal_cpu(const at::Tensor& w, const at::Tensor& temp,
                             const at::Tensor& denom_bias, const std::optional<at::Tensor>& state,
                             int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (w.scalar_type() == at::kDouble) {
    return tssa_causal_plain(w, temp, denom_bias, state, position);
  }
  kernels::CausalForwardArgs args;
  return run_forward(w, temp, denom_bias, state, position, args);
}

CausalForwardResult tssa_causal_forward_cpu(const at::Tensor& w, const at::Tensor& temp,
                                            const at::Tensor& denom_bias,
                                            const std::optional<at::Tensor>& state,
                                            int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (w.scalar_type() == at::kDouble) {
    return tssa_causal_forward_double(w, temp, denom_bias, state, position);
  }
  const int64_t chunks = kernels::causal_chunks(w.size(1));
  auto carry = empty_cached({w.size(0), chunks, 2 * w.size(2)}, at::kFloat);
  auto pi_carry = empty_cached({w.size(0), chunks, temp.size(0)}, at::kDouble);
  kernels::CausalForwardArgs args;
  args.carry = carry.mutable_data_ptr<float>();
  args.pi_carry = pi_carry.mutable_data_ptr<double>();
  auto [y, pi, after] = run_forward(w, temp, denom_bias, state, position, args);
  return {y, pi, after, carry, pi_carry};
}

CausalGradients tssa_causal_backward_cpu(const std::optional<at::Tensor>& grad_y,
                                         const std::optional<at::Tensor>& grad_pi,
                                         const at::Tensor& w_any, const at::Tensor& temp_any,
                                         const at::Tensor& denom_bias, int64_t position,
                                         const at::Tensor& pi_any, const at::Tensor& carry_any,
                                         const at::Tensor& pi_carry_any) {
  check_tssa_causal_inputs(w_any, temp_any, denom_bias, std::nullopt, position);
  if (w_any.scalar_type() == at::kDouble) {
    return tssa_causal_backward_double(grad_y, grad_pi, w_any, temp_any, denom_bias, position,
                                       pi_any, carry_any, pi_carry_any);
  }
  const auto w = adjacent_channels(w_any);
  const auto temp = float_values(temp_any);
  const auto bias = float_values(denom_bias);
  const auto gy =
      adjacent_channels(grad_y.has_value() ? grad_y->to(w.scalar_type()) : at::zeros_like(w));
  const auto gpi = grad_pi.has_value() ? float_values(*grad_pi) : at::Tensor();
  const auto pi = pi_any.contiguous(), carry = carry_any.contiguous(),
             pi_carry = pi_carry_any.contiguous();
  auto grad_w = empty_cached(w.sizes(), w.scalar_type());
  auto grad_temp = empty_cached(temp.sizes(), at::kFloat);
  auto grad_bias = empty_cached(bias.sizes(), at::kFloat);
  kernels::CausalBackwardArgs args;
  args.shape = shape_of(w, temp.size(0));
  args.dtype = kernel_dtype(w);
  args.w = tokens_in(w);
  args.grad_y = tokens_in(gy);
  args.grad_pi = gpi.defined() ? gpi.const_data_ptr<float>() : nullptr;
  args.temp = temp.const_data_ptr<float>();
  args.bias = bias_of(bias, position);
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

}  // namespace

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa_causal", tssa_causal_cpu);
  m.impl("tssa_causal_forward", tssa_causal_forward_cpu);
  m.impl("tssa_causal_backward", tssa_causal_backward_cpu);
}

}  // namespace tost
