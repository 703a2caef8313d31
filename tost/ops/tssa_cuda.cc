// The bidirectional operators on CUDA. float64, and shapes the kernels do not take, go through
// ATen.
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "tost/ops/cuda_call.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_double.h"
#include "tost/ops/tssa_inner.h"

namespace tost {
namespace {

at::Tensor adjacent_lengths(const std::optional<at::Tensor>& lengths) {
  return given(lengths) ? lengths->contiguous() : at::Tensor();
}
const int64_t* data_or_null(const at::Tensor& lengths) {
  return lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr;
}

TssaForwardResult forward_by_aten(const at::Tensor& w, const at::Tensor& temp,
                                  const std::optional<at::Tensor>& lengths) {
  auto [y, pi, energy, moment, pi_sum] =
      tssa_forward_double(w.to(at::kDouble), temp.to(at::kDouble), lengths);
  const auto wide = w.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {y.to(w.scalar_type()), pi.to(wide), energy.to(wide), moment.to(wide), pi_sum.to(wide)};
}

TssaForwardResult tssa_forward_cuda(const at::Tensor& w_any, const at::Tensor& temp_any,
                                    const std::optional<at::Tensor>& lengths) {
  check_tssa_inputs(w_any, temp_any, lengths);
  if (w_any.scalar_type() == at::kDouble) return forward_by_aten(w_any, temp_any, lengths);
  const c10::cuda::CUDAGuard guard(w_any.device());
  const auto w = adjacent_channels(w_any);
  const auto temp = float_values(temp_any);
  const auto own = adjacent_lengths(lengths);
  const int64_t batch = w.size(0), channels = w.size(2), heads = temp.size(0);
  auto y = at::empty(w.sizes(), w.options());
  auto pi = gpu_floats({batch, heads, w.size(1)}, w);
  auto energy = gpu_floats({batch, channels}, w), moment = gpu_floats({batch, channels}, w);
  auto pi_sum = gpu_floats({batch, heads}, w);
  kernels::TssaForwardArgs args;
  args.shape = shape_of(w, heads);
  args.dtype = gpu_dtype(w);
  args.w = tokens_in(w);
  args.temp = temp.const_data_ptr<float>();
  args.lengths = data_or_null(own);
  args.y = tokens_out(y);
  args.pi = pi.mutable_data_ptr<float>();
  args.energy = energy.mutable_data_ptr<float>();
  args.moment = moment.mutable_data_ptr<float>();
  args.pi_sum = pi_sum.mutable_data_ptr<float>();
  if (!kernels::cuda::supports(args)) return forward_by_aten(w, temp, lengths);
  const auto device = device_facts();
  const auto workspace = gpu_workspace(kernels::cuda::forward_workspace(args, device), w);
  gpu_check(kernels::cuda::tssa_forward(args, workspace.mutable_data_ptr(), device, gpu_stream()));
  return {y, pi, energy, moment, pi_sum};
}

std::tuple<at::Tensor, at::Tensor> tssa_cuda(const at::Tensor& w, const at::Tensor& temp,
                                             const std::optional<at::Tensor>& lengths) {
  const auto [y, pi, energy, moment, pi_sum] = tssa_forward_cuda(w, temp, lengths);
  return {y, pi};
}

std::tuple<at::Tensor, at::Tensor> backward_by_aten(
    const std::optional<at::Tensor>& grad_y, const std::optional<at::Tensor>& grad_pi,
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const std::optional<at::Tensor>& lengths) {
  const auto wide = [](const std::optional<at::Tensor>& x) {
    return x.has_value() ? std::optional<at::Tensor>(x->to(at::kDouble)) : std::nullopt;
  };
  const auto [grad_w, grad_temp] = tssa_backward_double(
      wide(grad_y), wide(grad_pi), w.to(at::kDouble), temp.to(at::kDouble), pi.to(at::kDouble),
      energy.to(at::kDouble), moment.to(at::kDouble), pi_sum.to(at::kDouble), lengths);
  return {grad_w.to(w.scalar_type()), grad_temp.to(temp.scalar_type())};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_cuda(
    const std::optional<at::Tensor>& grad_y, const std::optional<at::Tensor>& grad_pi,
    const at::Tensor& w_any, const at::Tensor& temp_any, const at::Tensor& pi,
    const at::Tensor& energy, const at::Tensor& moment, const at::Tensor& pi_sum,
    const std::optional<at::Tensor>& lengths) {
  check_tssa_inputs(w_any, temp_any, lengths);
  const auto by_aten = [&] {
    return backward_by_aten(grad_y, grad_pi, w_any, temp_any, pi, energy, moment, pi_sum, lengths);
  };
  if (w_any.scalar_type() == at::kDouble) return by_aten();
  const c10::cuda::CUDAGuard guard(w_any.device());
  const auto w = adjacent_channels(w_any);
  const auto temp = float_values(temp_any);
  const auto own = adjacent_lengths(lengths);
  const auto gy =
      adjacent_channels(grad_y.has_value() ? grad_y->to(w.scalar_type()) : at::zeros_like(w));
  const auto gpi = grad_pi.has_value() ? float_values(*grad_pi) : at::Tensor();
  auto grad_w = at::empty(w.sizes(), w.options());
  auto grad_temp = gpu_floats(temp.sizes(), w);
  const auto saved = {pi.contiguous(), energy.contiguous(), moment.contiguous(),
                      pi_sum.contiguous()};
  const auto* kept = saved.begin();
  kernels::TssaBackwardArgs args;
  args.shape = shape_of(w, temp.size(0));
  args.dtype = gpu_dtype(w);
  args.w = tokens_in(w);
  args.grad_y = tokens_in(gy);
  args.grad_pi = gpi.defined() ? gpi.const_data_ptr<float>() : nullptr;
  args.temp = temp.const_data_ptr<float>();
  args.lengths = data_or_null(own);
  args.pi = kept[0].const_data_ptr<float>();
  args.energy = kept[1].const_data_ptr<float>();
  args.moment = kept[2].const_data_ptr<float>();
  args.pi_sum = kept[3].const_data_ptr<float>();
  args.grad_w = tokens_out(grad_w);
  args.grad_temp = grad_temp.mutable_data_ptr<float>();
  if (!kernels::cuda::supports(args)) return by_aten();
  const auto device = device_facts();
  const auto workspace = gpu_workspace(kernels::cuda::backward_workspace(args, device), w);
  gpu_check(kernels::cuda::tssa_backward(args, workspace.mutable_data_ptr(), device, gpu_stream()));
  return {grad_w, grad_temp.to(temp_any.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CUDA, m) {
  m.impl("tssa", tssa_cuda);
  m.impl("tssa_forward", tssa_forward_cuda);
  m.impl("tssa_backward", tssa_backward_cuda);
}

}  // namespace tost
