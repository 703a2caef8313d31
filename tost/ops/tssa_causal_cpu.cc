// The causal operators on CPU: float32 and bfloat16 through the kernels, float64
// through ATen.
#include <torch/library.h>

#include "tost/kernels/tssa_causal.h"
#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_args.h"
#include "tost/ops/tssa_causal_inner.h"
#include "tost/ops/tssa_causal_plain.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

using CausalResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void run(CausalForwardCall& call) {
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::causal_forward_workspace(call.args, threads));
  kernels::causal_forward(call.args, workspace.data(), torch_parallel, threads);
}

CausalResult tssa_causal_cpu(const at::Tensor& w, const at::Tensor& temp,
                             const at::Tensor& denom_bias, const OptionalTensor& state,
                             int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (w.scalar_type() == at::kDouble) {
    return tssa_causal_plain(w, temp, denom_bias, state, position);
  }
  CausalForwardCall call(w, temp, denom_bias, state, position, /*keep=*/false, empty_cached);
  run(call);
  return {call.y, call.pi, call.after};
}

CausalForwardResult tssa_causal_forward_cpu(const at::Tensor& w, const at::Tensor& temp,
                                            const at::Tensor& denom_bias,
                                            const OptionalTensor& state, int64_t position) {
  check_tssa_causal_inputs(w, temp, denom_bias, state, position);
  if (w.scalar_type() == at::kDouble) {
    return tssa_causal_forward_double(w, temp, denom_bias, state, position);
  }
  CausalForwardCall call(w, temp, denom_bias, state, position, /*keep=*/true, empty_cached);
  run(call);
  return {call.y, call.pi, call.after, call.carry, call.pi_carry};
}

CausalGradients tssa_causal_backward_cpu(const OptionalTensor& grad_y,
                                         const OptionalTensor& grad_pi, const at::Tensor& w,
                                         const at::Tensor& temp, const at::Tensor& denom_bias,
                                         int64_t position, const at::Tensor& pi,
                                         const at::Tensor& carry, const at::Tensor& pi_carry) {
  check_tssa_causal_inputs(w, temp, denom_bias, std::nullopt, position);
  if (w.scalar_type() == at::kDouble) {
    return tssa_causal_backward_double(grad_y, grad_pi, w, temp, denom_bias, position, pi, carry,
                                       pi_carry);
  }
  CausalBackwardCall call(grad_y, grad_pi, w, temp, denom_bias, position, {pi, carry, pi_carry},
                          empty_cached);
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::causal_backward_workspace(call.args, threads));
  kernels::causal_backward(call.args, workspace.data(), torch_parallel, threads);
  return {call.grad_w, call.grad_temp.to(temp.scalar_type()),
          call.grad_bias.to(denom_bias.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa_causal", tssa_causal_cpu);
  m.impl("tssa_causal_forward", tssa_causal_forward_cpu);
  m.impl("tssa_causal_backward", tssa_causal_backward_cpu);
}

}  // namespace tost
