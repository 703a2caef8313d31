// The causal operators on CUDA. float64, heads the kernels do not take, and GPUs they do not run
// on, go through ATen.
#include <torch/library.h>

#include "tost/ops/cuda_call.h"
#include "tost/ops/tssa_causal_inner.h"
#include "tost/ops/tssa_causal_plain.h"
#include "tost/ops/tssa_check.h"

namespace tost {
namespace {

using CausalResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
void run(CausalForwardCall& call) {
  const auto workspace = gpu_workspace(kernels::cuda::forward_workspace(call.args), call.w);
  gpu_check(kernels::cuda::causal_forward(call.args, workspace.mutable_data_ptr(), device_facts(),
                                          gpu_stream()));
}

bool causal_by_kernels(const at::Tensor& w, const at::Tensor& temp) {
  return by_kernels(w) && kernels::cuda::supports_causal(shape_of(w, temp.size(0)));
}

CausalResult tssa_causal_cuda(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const OptionalTensor& state,
                              int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (!causal_by_kernels(w, temp)) return tssa_causal_plain(w, temp, denom_bias, state, position);
  const c10::cuda::CUDAGuard guard(w.device());
  CausalForwardCall call(w, temp, denom_bias, state, position, /*keep=*/false, gpu_empty(w));
  run(call);
  return {call.y, call.pi, call.after};
}

// Where the kernels do not run, what is kept has the layout of the plain form, which backward
// then finds by the same questions.
CausalForwardResult tssa_causal_forward_cuda(const at::Tensor& w, const at::Tensor& temp,
                                             const at::Tensor& denom_bias,
                                             const OptionalTensor& state, int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (w.scalar_type() == at::kDouble) {
    return tssa_causal_forward_double(w, temp, denom_bias, state, position);
  }
  if (!causal_by_kernels(w, temp)) {
    auto [y, pi, after, carry, pi_carry] = tssa_causal_forward_double(
        w.to(at::kDouble), temp.to(at::kDouble), denom_bias.to(at::kDouble), state, position);
    return {y.to(w.scalar_type()), pi.to(at::kFloat), after, carry.to(at::kFloat), pi_carry};
  }
  const c10::cuda::CUDAGuard guard(w.device());
  CausalForwardCall call(w, temp, denom_bias, state, position, /*keep=*/true, gpu_empty(w));
  run(call);
  return {call.y, call.pi, call.after, call.carry, call.pi_carry};
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
                                          const OptionalTensor& grad_pi, const at::Tensor& w,
                                          const at::Tensor& temp, const at::Tensor& denom_bias,
                                          int64_t position, const at::Tensor& pi,
                                          const at::Tensor& carry, const at::Tensor& pi_carry) {
  check_tssa_causal_inputs(w, temp, denom_bias, std::nullopt, position);
  if (!causal_by_kernels(w, temp)) {
    return backward_by_aten(grad_y, grad_pi, w, temp, denom_bias, position, pi, carry, pi_carry);
  }
  const c10::cuda::CUDAGuard guard(w.device());
  CausalBackwardCall call(grad_y, grad_pi, w, temp, denom_bias, position, {pi, carry, pi_carry},
                          gpu_empty(w));
  const auto workspace = gpu_workspace(kernels::cuda::backward_workspace(call.args), call.w);
  gpu_check(kernels::cuda::causal_backward(call.args, workspace.mutable_data_ptr(), gpu_stream()));
  return {call.grad_w, call.grad_temp.to(temp.scalar_type()),
          call.grad_bias.to(denom_bias.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  m.impl("tssa_causal", tssa_causal_cuda);
  m.impl("tssa_causal_forward", tssa_causal_forward_cuda);
  m.impl("tssa_causal_backward", tssa_causal_backward_cuda);
}

}  // namespace tost
