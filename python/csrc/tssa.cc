// The bidirectional operators on the CPU.
#include <torch/csrc/stable/library.h>

#include "tensors.h"

namespace tost::python {
namespace {

// The lengths, contiguous and in range.
OptionalTensor checked_lengths(const OptionalTensor& lengths, const kernels::TssaShape& shape) {
  if (!lengths) return std::nullopt;
  check_tensor("lengths", *lengths, {shape.batch}, ScalarType::Long);
  const auto adjacent = as_contiguous(*lengths);
  const auto* values = read<int64_t>(adjacent);
  for (int64_t i = 0; i < shape.batch; ++i) {
    if (values[i] >= 0 && values[i] <= shape.tokens) continue;
    fail_usage("tssa: lengths[", i, "] is ", values[i], "; it must be from 0 to the ", shape.tokens,
               " tokens of w.");
  }
  return adjacent;
}

using ForwardResult = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

ForwardResult forward(const Tensor& w_any, const Tensor& temp_any, const OptionalTensor& lengths) {
  const auto shape = checked_shape(w_any, temp_any);
  const auto valid_lengths = checked_lengths(lengths, shape);
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const auto floats = [](const Sizes& sizes) { return empty_result(sizes, ScalarType::Float); };
  const auto y = empty_result({shape.batch, shape.tokens, shape.channels()}, w.scalar_type());
  const auto pi = floats({shape.batch, shape.heads, shape.tokens});
  const auto energy = floats({shape.batch, shape.channels()});
  const auto moment = floats({shape.batch, shape.channels()});
  const auto pi_sum = floats({shape.batch, shape.heads});

  kernels::TssaForwardArgs args;
  args.shape = shape;
  args.dtype = kernel_dtype(w);
  args.w = tokens_in(w);
  args.temp = read<float>(temp);
  args.lengths = valid_lengths ? read<int64_t>(*valid_lengths) : nullptr;
  args.y = tokens_out(y);
  args.pi = write<float>(pi);
  args.energy = write<float>(energy);
  args.moment = write<float>(moment);
  args.pi_sum = write<float>(pi_sum);
  const ScratchBlock workspace(kernels::tssa_forward_workspace(args));
  kernels::tssa_forward(args, workspace.data(), torch_parallel, torch_threads());
  return {y, pi, energy, moment, pi_sum};
}

std::tuple<Tensor, Tensor> backward(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                                    const Tensor& w_any, const Tensor& temp_any,
                                    const Tensor& pi_any, const Tensor& energy_any,
                                    const Tensor& moment_any, const Tensor& pi_sum_any,
                                    const OptionalTensor& lengths) {
  const auto shape = checked_shape(w_any, temp_any);
  const Sizes like_w = {shape.batch, shape.tokens, shape.channels()};
  const Sizes like_pi = {shape.batch, shape.heads, shape.tokens};
  check_tensor("pi", pi_any, like_pi, ScalarType::Float);
  check_tensor("energy", energy_any, {shape.batch, shape.channels()}, ScalarType::Float);
  check_tensor("moment", moment_any, {shape.batch, shape.channels()}, ScalarType::Float);
  check_tensor("pi_sum", pi_sum_any, {shape.batch, shape.heads}, ScalarType::Float);
  const Gradients given(grad_y, grad_pi, shape, w_any);
  const auto valid_lengths = checked_lengths(lengths, shape);
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const auto pi = as_contiguous(pi_any), energy = as_contiguous(energy_any);
  const auto moment = as_contiguous(moment_any), pi_sum = as_contiguous(pi_sum_any);
  const auto grad_w = empty_result(like_w, w.scalar_type());
  const auto grad_temp = empty_result({shape.heads, 1}, ScalarType::Float);

  kernels::TssaBackwardArgs args;
  args.shape = shape;
  args.dtype = kernel_dtype(w);
  args.w = tokens_in(w);
  args.grad_y = tokens_in(given.y);
  args.grad_pi = given.pi_values();
  args.temp = read<float>(temp);
  args.lengths = valid_lengths ? read<int64_t>(*valid_lengths) : nullptr;
  args.pi = read<float>(pi);
  args.energy = read<float>(energy);
  args.moment = read<float>(moment);
  args.pi_sum = read<float>(pi_sum);
  args.grad_w = tokens_out(grad_w);
  args.grad_temp = write<float>(grad_temp);
  const ScratchBlock workspace(kernels::tssa_backward_workspace(args));
  kernels::tssa_backward(args, workspace.data(), torch_parallel, torch_threads());
  return {grad_w, converted(grad_temp, temp_any.scalar_type())};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa_forward", TORCH_BOX(&forward));
  m.impl("tssa_backward", TORCH_BOX(&backward));
}

}  // namespace tost::python
