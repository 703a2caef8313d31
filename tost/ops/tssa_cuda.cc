// The bidirectional operators on CUDA. float64, shapes the kernels do not take, and GPUs they do
// not run on, go through ATen.
#include <torch/library.h>

#include "tost/ops/cuda_call.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_double.h"
#include "tost/ops/tssa_inner.h"

namespace tost {
namespace {

at::Tensor adjacent_lengths(const OptionalTensor& lengths) {
  return given(lengths) ? lengths->contiguous() : at::Tensor();
}
TssaForwardResult forward_by_aten(const at::Tensor& w, const at::Tensor& temp,
                                  const OptionalTensor& lengths) {
  auto [y, pi, energy, moment, pi_sum] =
      tssa_forward_double(w.to(at::kDouble), temp.to(at::kDouble), lengths);
  const auto wide = w.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {y.to(w.scalar_type()), pi.to(wide), energy.to(wide), moment.to(wide), pi_sum.to(wide)};
}

TssaForwardResult tssa_forward_cuda(const at::Tensor& w, const at::Tensor& temp,
                                    const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  if (!by_kernels(w)) return forward_by_aten(w, temp, lengths);
  const c10::cuda::CUDAGuard guard(w.device());
  TssaForwardCall call(w, temp, adjacent_lengths(lengths), /*keep=*/true, gpu_empty(w));
  if (!kernels::cuda::supports(call.args)) return forward_by_aten(w, temp, lengths);
  const auto& device = device_facts();
  const auto workspace = gpu_workspace(kernels::cuda::forward_workspace(call.args, device), w);
  gpu_check(
      kernels::cuda::tssa_forward(call.args, workspace.mutable_data_ptr(), device, gpu_stream()));
  return {call.y, call.pi, call.energy, call.moment, call.pi_sum};
}

std::tuple<at::Tensor, at::Tensor> tssa_cuda(const at::Tensor& w, const at::Tensor& temp,
                                             const OptionalTensor& lengths) {
  const auto [y, pi, energy, moment, pi_sum] = tssa_forward_cuda(w, temp, lengths);
  return {y, pi};
}

std::tuple<at::Tensor, at::Tensor> backward_by_aten(
    const OptionalTensor& grad_y, const OptionalTensor& grad_pi, const at::Tensor& w,
    const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const OptionalTensor& lengths) {
  const auto wide = [](const OptionalTensor& x) {
    return x.has_value() ? OptionalTensor(x->to(at::kDouble)) : std::nullopt;
  };
  const auto [grad_w, grad_temp] = tssa_backward_double(
      wide(grad_y), wide(grad_pi), w.to(at::kDouble), temp.to(at::kDouble), pi.to(at::kDouble),
      energy.to(at::kDouble), moment.to(at::kDouble), pi_sum.to(at::kDouble), lengths);
  return {grad_w.to(w.scalar_type()), grad_temp.to(temp.scalar_type())};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_cuda(
    const OptionalTensor& grad_y, const OptionalTensor& grad_pi, const at::Tensor& w,
    const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto by_aten = [&] {
    return backward_by_aten(grad_y, grad_pi, w, temp, pi, energy, moment, pi_sum, lengths);
  };
  if (!by_kernels(w)) return by_aten();
  const c10::cuda::CUDAGuard guard(w.device());
  TssaBackwardCall call(grad_y, grad_pi, w, temp, {pi, energy, moment, pi_sum},
                        adjacent_lengths(lengths), gpu_empty(w));
  if (!kernels::cuda::supports(call.args)) return by_aten();
  const auto& device = device_facts();
  const auto workspace = gpu_workspace(kernels::cuda::backward_workspace(call.args, device), w);
  gpu_check(
      kernels::cuda::tssa_backward(call.args, workspace.mutable_data_ptr(), device, gpu_stream()));
  return {call.grad_w, call.grad_temp.to(temp.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  m.impl("tssa", tssa_cuda);
  m.impl("tssa_forward", tssa_forward_cuda);
  m.impl("tssa_backward", tssa_backward_cuda);
}

}  // namespace tost
