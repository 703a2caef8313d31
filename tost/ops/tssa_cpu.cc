// The operators on CPU: float32 and bfloat16 through the kernels, float64 through ATen.
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "tost/base/error.h"
#include "tost/ops/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/tssa_check.h"
#include "tost/ops/tssa_double.h"
#include "tost/ops/tssa_inner.h"
#include "tost/ops/tssa_plain.h"

namespace tost {
namespace {

// The lengths, contiguous and in range; undefined where there are none.
at::Tensor lengths_in_range(const std::optional<at::Tensor>& lengths, int64_t tokens) {
  if (!given(lengths)) return {};
  const auto adjacent = lengths->contiguous();
  const auto* values = adjacent.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < adjacent.numel(); ++i) {
    if (values[i] >= 0 && values[i] <= tokens) continue;
    fail_usage("tssa: lengths[", i, "] is ", values[i], "; it must be from 0 to the ", tokens,
               " tokens of w.");
  }
  return adjacent;
}
const int64_t* data_or_null(const at::Tensor& lengths) {
  return lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr;
}

std::tuple<at::Tensor, at::Tensor> run_forward(const at::Tensor& w_any, const at::Tensor& temp_any,
                                               const at::Tensor& lengths,
                                               kernels::TssaForwardArgs& args) {
  const auto w = adjacent_channels(w_any);
  const auto temp = float_values(temp_any);
  args.shape = shape_of(w, temp.size(0));
  args.dtype = kernel_dtype(w);
  auto y = empty_cached(w.sizes(), w.scalar_type());
  auto pi = empty_cached({w.size(0), temp.size(0), w.size(1)}, at::kFloat);
  args.w = tokens_in(w);
  args.temp = temp.const_data_ptr<float>();
  args.lengths = data_or_null(lengths);
  args.y = tokens_out(y);
  args.pi = pi.mutable_data_ptr<float>();
  const ScratchBlock workspace(kernels::tssa_forward_workspace(args));
  kernels::tssa_forward(args, workspace.data(), torch_parallel, torch_threads());
  return {y, pi};
}

std::tuple<at::Tensor, at::Tensor> tssa_cpu(const at::Tensor& w, const at::Tensor& temp,
                                            const std::optional<at::Tensor>& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto own = lengths_in_range(lengths, w.size(1));
  if (w.scalar_type() == at::kDouble) {
    const auto [y, pi, energy, moment, pi_sum] = tssa_forward_double(w, temp, own);
    return {y, pi};
  }
  kernels::TssaForwardArgs args;
  return run_forward(w, temp, own, args);
}

TssaForwardResult tssa_forward_cpu(const at::Tensor& w, const at::Tensor& temp,
                                   const std::optional<at::Tensor>& lengths) {
  check_tssa_inputs(w, temp, lengths);
  const auto own = lengths_in_range(lengths, w.size(1));
  if (w.scalar_type() == at::kDouble) return tssa_forward_double(w, temp, own);
  auto energy = empty_cached({w.size(0), w.size(2)}, at::kFloat);
  auto moment = empty_cached({w.size(0), w.size(2)}, at::kFloat);
  auto pi_sum = empty_cached({w.size(0), temp.size(0)}, at::kFloat);
  kernels::TssaForwardArgs args;
  args.energy = energy.mutable_data_ptr<float>();
  args.moment = moment.mutable_data_ptr<float>();
  args.pi_sum = pi_sum.mutable_data_ptr<float>();
  auto [y, pi] = run_forward(w, temp, own, args);
  return {y, pi, energy, moment, pi_sum};
}

std::tuple<at::Tensor, at::Tensor> tssa_backward_cpu(
    const std::optional<at::Tensor>& grad_y, const std::optional<at::Tensor>& grad_pi,
    const at::Tensor& w_any, const at::Tensor& temp_any, const at::Tensor& pi,
    const at::Tensor& energy, const at::Tensor& moment, const at::Tensor& pi_sum,
    const std::optional<at::Tensor>& lengths) {
  check_tssa_inputs(w_any, temp_any, lengths);
  const auto own = lengths_in_range(lengths, w_any.size(1));
  if (w_any.scalar_type() == at::kDouble) {
    return tssa_backward_double(grad_y, grad_pi, w_any, temp_any, pi, energy, moment, pi_sum, own);
  }
  const auto w = adjacent_channels(w_any);
  const auto temp = float_values(temp_any);
  const auto gy =
      adjacent_channels(grad_y.has_value() ? grad_y->to(w.scalar_type()) : at::zeros_like(w));
  const auto gpi = grad_pi.has_value() ? grad_pi->to(at::kFloat).contiguous() : at::Tensor();
  auto grad_w = empty_cached(w.sizes(), w.scalar_type());
  auto grad_temp = empty_cached(temp.sizes(), at::kFloat);
  const auto saved = {pi.contiguous(), energy.contiguous(), moment.contiguous(),
                      pi_sum.contiguous()};
  const auto* kept = saved.begin();
  kernels::TssaBackwardArgs args;
  args.shape = shape_of(w, temp.size(0));
  args.dtype = kernel_dtype(w);
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
  const ScratchBlock workspace(kernels::tssa_backward_workspace(args));
  kernels::tssa_backward(args, workspace.data(), torch_parallel, torch_threads());
  return {grad_w, grad_temp.to(temp_any.scalar_type())};
}

}  // namespace

TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa", tssa_cpu);
  m.impl("tssa_forward", tssa_forward_cpu);
  m.impl("tssa_backward", tssa_backward_cpu);
}

}  // namespace tost
