// The operators on CPU: float32 and bfloat16 through the kernels, float64 through ATen.
#include <torch/library.h>

#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_args.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_double.h"
#include "tost/ops/tssa_inner.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

void run(TssaForwardCall& call) {
  const ScratchBlock workspace(kernels::tssa_forward_workspace(call.args));
  kernels::tssa_forward(call.args, workspace.data(), torch_parallel, torch_threads());
}

std::tuple<at::Tensor, at::Tensor> tssa_cpu(const at::Tensor& w, const at::Tensor& temp,
                                            const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto own = lengths_in_range(lengths, w.size(1));
  if (w.scalar_type() == at::kDouble) {
    const auto [y, pi, energy, moment, pi_sum] = tssa_forward_double(w, temp, own);
    return {y, pi};
  }
  TssaForwardCall call(w, temp, own, /*keep=*/false, empty_cached);
  run(call);
  return {call.y, call.pi};
}

TssaForwardResult tssa_forward_cpu(const at::Tensor& w, const at::Tensor& temp,
                                   const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto own = lengths_in_range(lengths, w.size(1));
  if (w.scalar_type() == at::kDouble) return tssa_forward_double(w, temp, own);
  TssaForwardCall call(w, temp, own, /*keep=*/true, empty_cached);
  run(call);
  return {call.y, call.pi, call.energy, call.moment, call.pi_sum};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_cpu(
    const OptionalTensor& grad_y, const OptionalTensor& grad_pi, const at::Tensor& w,
    const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const OptionalTensor& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto own = lengths_in_range(lengths, w.size(1));
  if (w.scalar_type() == at::kDouble) {
    return tssa_backward_double(grad_y, grad_pi, w, temp, pi, energy, moment, pi_sum, own);
  }
  TssaBackwardCall call(grad_y, grad_pi, w, temp, {pi, energy, moment, pi_sum}, own, empty_cached);
  const ScratchBlock workspace(kernels::tssa_backward_workspace(call.args));
  kernels::tssa_backward(call.args, workspace.data(), torch_parallel, torch_threads());
  return {call.grad_w, call.grad_temp.to(temp.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa", tssa_cpu);
  m.impl("tssa_forward", tssa_forward_cpu);
  m.impl("tssa_backward", tssa_backward_cpu);
}

}  // namespace tost
