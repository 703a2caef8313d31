// The operators on CUDA, in both directions. float64, shapes that the kernels do not support and
// GPUs that they do not run on use the plain form.
#include "tost/kernels/cuda/tssa_cuda.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "tost/ops/device.h"
#include "tost/ops/kernel_args.h"

namespace tost {
namespace {

using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// An attribute of the current device.
int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

// Whether the kernels run on this tensor's type and device; shapes are checked separately.
bool by_kernels(const at::Tensor& w) {
  return w.scalar_type() != at::kDouble && gpu_has_kernels(w.device().index());
}
bool causal_by_kernels(const at::Tensor& w, const at::Tensor& temp) {
  return by_kernels(w) && kernels::cuda::supports_causal(shape_of(w, temp.size(0)));
}

// Makes results on the device of `like`.
auto gpu_empty(const at::Tensor& like) {
  return [options = like.options()](at::IntArrayRef sizes, at::ScalarType dtype) {
    return at::empty(sizes, options.dtype(dtype));
  };
}
// The allocator reserves it for the current stream until the work queued there is done.
at::Tensor gpu_workspace(int64_t bytes, const at::Tensor& like) {
  return at::empty({bytes}, like.options().dtype(at::kByte));
}
void gpu_check(int error) {
  C10_CUDA_CHECK(static_cast<cudaError_t>(error));
}
void* gpu_stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

at::Tensor adjacent_lengths(const OptionalTensor& lengths) {
  return is_defined(lengths) ? lengths->contiguous() : at::Tensor();
}

TssaForwardResult tssa_forward_cuda(const at::Tensor& w, const at::Tensor& temp,
                                    const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  if (!by_kernels(w)) return tssa_forward_plain(w, temp, lengths);
  const c10::cuda::CUDAGuard guard(w.device());
  const TssaForwardCall call(w, temp, adjacent_lengths(lengths), true, gpu_empty(w));
  if (!kernels::cuda::supports(call.args)) return tssa_forward_plain(w, temp, lengths);
  const int processors = attribute(cudaDevAttrMultiProcessorCount);
  const auto workspace = gpu_workspace(kernels::cuda::forward_workspace(call.args, processors), w);
  gpu_check(kernels::cuda::tssa_forward(call.args, workspace.mutable_data_ptr(), processors,
                                        gpu_stream()));
  return {call.y, call.pi, call.energy, call.moment, call.pi_sum};
}

std::tuple<at::Tensor, at::Tensor> tssa_cuda(const at::Tensor& w, const at::Tensor& temp,
                                             const OptionalTensor& lengths) {
  const auto [y, pi, energy, moment, pi_sum] = tssa_forward_cuda(w, temp, lengths);
  return {y, pi};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_cuda(
    const OptionalTensor& grad_y, const OptionalTensor& grad_pi, const at::Tensor& w,
    const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  if (!by_kernels(w)) return tssa_backward_plain(grad_y, grad_pi, w, temp, lengths);
  const c10::cuda::CUDAGuard guard(w.device());
  const TssaBackwardCall call(grad_y, grad_pi, w, temp, {pi, energy, moment, pi_sum},
                              adjacent_lengths(lengths), gpu_empty(w));
  if (!kernels::cuda::supports(call.args)) {
    return tssa_backward_plain(grad_y, grad_pi, w, temp, lengths);
  }
  const int processors = attribute(cudaDevAttrMultiProcessorCount);
  const auto workspace = gpu_workspace(kernels::cuda::backward_workspace(call.args, processors), w);
  gpu_check(kernels::cuda::tssa_backward(call.args, workspace.mutable_data_ptr(), processors,
                                         gpu_stream()));
  return {call.grad_w, call.grad_temp.to(temp.scalar_type())};
}

// Without the kernels the carry has the layout of the plain form. Backward makes the same choice by
// the same checks.
TssaForwardResult causal_on_cuda(const at::Tensor& w, const at::Tensor& temp,
                                 const at::Tensor& denom_bias, const OptionalTensor& state,
                                 int64_t position, bool with_carry) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (!causal_by_kernels(w, temp)) {
    return tssa_causal_forward_plain(w, temp, denom_bias, state, position);
  }
  const c10::cuda::CUDAGuard guard(w.device());
  const CausalForwardCall call(w, temp, denom_bias, state, position, with_carry, gpu_empty(w));
  const auto workspace = gpu_workspace(kernels::cuda::forward_workspace(call.args), call.w);
  gpu_check(kernels::cuda::causal_forward(call.args, workspace.mutable_data_ptr(),
                                          attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin),
                                          gpu_stream()));
  return {call.y, call.pi, call.after, call.carry, call.pi_carry};
}

ThreeTensors tssa_causal_cuda(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const OptionalTensor& state,
                              int64_t position) {
  const auto [y, pi, after, carry, pi_carry] =
      causal_on_cuda(w, temp, denom_bias, state, position, false);
  return {y, pi, after};
}

TssaForwardResult tssa_causal_forward_cuda(const at::Tensor& w, const at::Tensor& temp,
                                           const at::Tensor& denom_bias,
                                           const OptionalTensor& state, int64_t position) {
  return causal_on_cuda(w, temp, denom_bias, state, position, true);
}

ThreeTensors tssa_causal_backward_cuda(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                                       const at::Tensor& w, const at::Tensor& temp,
                                       const at::Tensor& denom_bias, int64_t position,
                                       const at::Tensor& pi, const at::Tensor& carry,
                                       const at::Tensor& pi_carry) {
  check_tssa_causal_inputs(w, temp, denom_bias, std::nullopt, position);
  if (!causal_by_kernels(w, temp)) {
    return tssa_causal_backward_plain(grad_y, grad_pi, w, temp, denom_bias, position, carry,
                                      pi_carry);
  }
  const c10::cuda::CUDAGuard guard(w.device());
  const CausalBackwardCall call(grad_y, grad_pi, w, temp, denom_bias, position,
                                {pi, carry, pi_carry}, gpu_empty(w));
  const auto workspace = gpu_workspace(kernels::cuda::backward_workspace(call.args), call.w);
  gpu_check(kernels::cuda::causal_backward(call.args, workspace.mutable_data_ptr(), gpu_stream()));
  return {call.grad_w, call.grad_temp.to(temp.scalar_type()),
          call.grad_bias.to(denom_bias.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  m.impl("tssa", tssa_cuda);
  m.impl("tssa_forward", tssa_forward_cuda);
  m.impl("tssa_backward", tssa_backward_cuda);
  m.impl("tssa_causal", tssa_causal_cuda);
  m.impl("tssa_causal_forward", tssa_causal_forward_cuda);
  m.impl("tssa_causal_backward", tssa_causal_backward_cuda);
}

}  // namespace tost
