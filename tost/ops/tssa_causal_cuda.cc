// The causal operators on CUDA. float64, and heads the kernels do not take, go through ATen.
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "tost/ops/cuda_call.h"
#include "tost/ops/tssa_causal_inner.h"
#include "tost/ops/tssa_causal_plain.h"
#include "tost/ops/tssa_check.h"

namespace tost {
namespace {

using CausalResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;

// The tensors behind a forward call's arguments.
struct ForwardCall {
  ForwardCall(const at::Tensor& w_any, const at::Tensor& temp_any, const at::Tensor& denom_bias,
              const OptionalTensor& state_any, int64_t position)
      : w(adjacent_channels(w_any)),
        temp(float_values(temp_any)),
        bias(float_values(denom_bias)),
        state(given(state_any) ? state_any->contiguous() : at::Tensor()),
        y(at::empty(w.sizes(), w.options())),
        pi(gpu_floats({w.size(0), temp.size(0), w.size(1)}, w)) {
    args.shape = shape_of(w, temp.size(0));
    after = at::empty({w.size(0), kernels::causal_state_size(args.shape)},
                      w.options().dtype(at::kDouble));
    args.dtype = gpu_dtype(w);
    args.w = tokens_in(w);
    args.temp = temp.const_data_ptr<float>();
    args.bias = {bias.const_data_ptr<float>(), bias.size(1), position};
    args.state = state.defined() ? state.const_data_ptr<double>() : nullptr;
    args.y = tokens_out(y);
    args.next_state = after.mutable_data_ptr<double>();
    args.pi = pi.mutable_data_ptr<float>();
  }

  CausalResult run() {
    const auto workspace = gpu_workspace(kernels::cuda::forward_workspace(args), w);
    gpu_check(kernels::cuda::causal_forward(args, workspace.mutable_data_ptr(), gpu_stream()));
    return {y, pi, after};
  }

  at::Tensor w, temp, bias, state, y, pi, after;
  kernels::CausalForwardArgs args;
};

CausalResult tssa_causal_cuda(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const OptionalTensor& state,
                              int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (w.scalar_type() != at::kDouble) {
    const c10::cuda::CUDAGuard guard(w.device());
    ForwardCall call(w, temp, denom_bias, state, position);
    if (kernels::cuda::supports(call.args)) return call.run();
  }
  return tssa_causal_plain(w, temp, denom_bias, state, position);
}

// Where the kernels do not take a head, what is kept has the layout of the written-out form, which
// backward then finds by the same question.
CausalForwardResult tssa_causal_forward_cuda(const at::Tensor& w, const at::Tensor& temp,
                                             const at::Tensor& denom_bias,
                                             const OptionalTensor& state, int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (w.scalar_type() == at::kDouble) {
    return tssa_causal_forward_double(w, temp, denom_bias, state, position);
  }
  const c10::cuda::CUDAGuard guard(w.device());
  ForwardCall call(w, temp, denom_bias, state, position);
  if (call.args.shape.width > kernels::cuda::kWidestCausalHead) {
    auto [y, pi, after, carry, pi_carry] = tssa_causal_forward_double(
        w.to(at::kDouble), temp.to(at::kDouble), denom_bias.to(at::kDouble), state, position);
    return {y.to(w.scalar_type()), pi.to(at::kFloat), after, carry.to(at::kFloat), pi_carry};
  }
  const int64_t chunks = kernels::causal_chunks(w.size(1));
  auto carry = gpu_floats({w.size(0), chunks, 2 * w.size(2)}, w);
  auto pi_carry = at::empty({w.size(0), chunks, temp.size(0)}, w.options().dtype(at::kDouble));
  call.args.carry = carry.mutable_data_ptr<float>();
  call.args.pi_carry = pi_carry.mutable_data_ptr<double>();
  auto [y, pi, after] = call.run();
  return {y, pi, after, carry, pi_carry};
}

CausalGradients backward_by_aten(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                                 const at::Tensor& w, const at::Tensor& temp,
                                 const at::Tensor& denom_bias, int64_t position,
                                 const at::Tensor& pi, const at::Tensor& carry,
                                 const at::Tensor& pi_carry) {
  const auto wide = [](const OptionalTensor& x) {
    return x.has_value() ? OptionalTensor(x->to(at::kDouble)) : std::nullopt;
  };
  const auto [grad_w, grad_temp, grad_bias] = tssa_causal_backward_double(
      wide(grad_y), wide(grad_pi), w.to(at::kDouble), temp.to(at::kDouble),
      denom_bias.to(at::kDouble), position, pi.to(at::kDouble), carry.to(at::kDouble), pi_carry);
  return {grad_w.to(w.scalar_type()), grad_temp.to(temp.scalar_type()),
          grad_bias.to(denom_bias.scalar_type())};
}

CausalGradients tssa_causal_backward_cuda(const OptionalTensor& grad_y,
                                          const OptionalTensor& grad_pi, const at::Tensor& w_any,
                                          const at::Tensor& temp_any, const at::Tensor& denom_bias,
                                          int64_t position, const at::Tensor& pi_any,
                                          const at::Tensor& carry_any,
                                          const at::Tensor& pi_carry_any) {
  check_tssa_causal_inputs(w_any, temp_any, denom_bias, std::nullopt, position);
  const int64_t width = w_any.size(2) / temp_any.size(0);
  if (w_any.scalar_type() == at::kDouble || width > kernels::cuda::kWidestCausalHead) {
    return backward_by_aten(grad_y, grad_pi, w_any, temp_any, denom_bias, position, pi_any,
                            carry_any, pi_carry_any);
  }
  const c10::cuda::CUDAGuard guard(w_any.device());
  const auto w = adjacent_channels(w_any);
  const auto temp = float_values(temp_any), bias = float_values(denom_bias);
  const auto gy =
      adjacent_channels(grad_y.has_value() ? grad_y->to(w.scalar_type()) : at::zeros_like(w));
  const auto gpi = grad_pi.has_value() ? float_values(*grad_pi) : at::Tensor();
  const auto pi = pi_any.contiguous(), carry = carry_any.contiguous(),
             pi_carry = pi_carry_any.contiguous();
  auto grad_w = at::empty(w.sizes(), w.options());
  auto grad_temp = gpu_floats(temp.sizes(), w), grad_bias = gpu_floats(bias.sizes(), w);
  kernels::CausalBackwardArgs args;
  args.shape = shape_of(w, temp.size(0));
  args.dtype = gpu_dtype(w);
  args.w = tokens_in(w);
  args.grad_y = tokens_in(gy);
  args.grad_pi = gpi.defined() ? gpi.const_data_ptr<float>() : nullptr;
  args.temp = temp.const_data_ptr<float>();
  args.bias = {bias.const_data_ptr<float>(), bias.size(1), position};
  args.pi = pi.const_data_ptr<float>();
  args.carry = carry.const_data_ptr<float>();
  args.pi_carry = pi_carry.const_data_ptr<double>();
  args.grad_w = tokens_out(grad_w);
  args.grad_temp = grad_temp.mutable_data_ptr<float>();
  args.grad_bias = grad_bias.mutable_data_ptr<float>();
  const auto workspace = gpu_workspace(kernels::cuda::backward_workspace(args), w);
  gpu_check(kernels::cuda::causal_backward(args, workspace.mutable_data_ptr(), gpu_stream()));
  return {grad_w, grad_temp.to(temp_any.scalar_type()), grad_bias.to(denom_bias.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  m.impl("tssa_causal", tssa_causal_cuda);
  m.impl("tssa_causal_forward", tssa_causal_forward_cuda);
  m.impl("tssa_causal_backward", tssa_causal_backward_cuda);
}

}  // namespace tost
