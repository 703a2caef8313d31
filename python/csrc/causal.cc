// The causal operators on the CPU.
#include <torch/csrc/stable/library.h>

#include "tensors.h"
#include "tost/kernels/tssa_causal.h"

namespace tost::python {
namespace {

kernels::TssaShape checked_causal_shape(const Tensor& w, const Tensor& temp, const Tensor& bias,
                                        int64_t position) {
  const auto shape = checked_shape(w, temp);
  const int64_t positions = bias.dim() == 3 ? bias.size(1) : 1;
  check_tensor("denom_bias", bias, {shape.heads, positions, 1}, bias.scalar_type());
  if (position < 0) {
    fail_usage("tssa_causal: position is ", position, "; it counts the tokens before w.");
  }
  return shape;
}

using ForwardResult = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

ForwardResult forward(const Tensor& w_any, const Tensor& temp_any, const Tensor& bias_any,
                      const OptionalTensor& state_any, int64_t position) {
  const auto shape = checked_causal_shape(w_any, temp_any, bias_any, position);
  const int64_t numbers = kernels::causal_state_size(shape);
  if (state_any) check_tensor("state", *state_any, {shape.batch, numbers}, ScalarType::Double);
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const auto bias = float_values(bias_any);
  const auto state = state_any ? OptionalTensor(as_contiguous(*state_any)) : std::nullopt;
  const int64_t chunks = kernels::causal_chunks(shape.tokens);
  const auto y = empty_result({shape.batch, shape.tokens, shape.channels()}, w.scalar_type());
  const auto pi = empty_result({shape.batch, shape.heads, shape.tokens}, ScalarType::Float);
  const auto after = empty_result({shape.batch, numbers}, ScalarType::Double);
  const auto carry = empty_result({shape.batch, chunks, 2 * shape.channels()}, ScalarType::Float);
  const auto pi_carry = empty_result({shape.batch, chunks, shape.heads}, ScalarType::Double);

  kernels::CausalForwardArgs args;
  args.shape = shape;
  args.dtype = kernel_dtype(w);
  args.w = tokens_in(w);
  args.temp = read<float>(temp);
  args.bias = {read<float>(bias), bias.size(1), position};
  args.state = state ? read<double>(*state) : nullptr;
  args.y = tokens_out(y);
  args.next_state = write<double>(after);
  args.pi = write<float>(pi);
  args.carry = write<float>(carry);
  args.pi_carry = write<double>(pi_carry);
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::causal_forward_workspace(args, threads));
  kernels::causal_forward(args, workspace.data(), torch_parallel, threads);
  return {y, pi, after, carry, pi_carry};
}

std::tuple<Tensor, Tensor, Tensor> backward(const OptionalTensor& grad_y,
                                            const OptionalTensor& grad_pi, const Tensor& w_any,
                                            const Tensor& temp_any, const Tensor& bias_any,
                                            int64_t position, const Tensor& pi_any,
                                            const Tensor& carry_any, const Tensor& pi_carry_any) {
  const auto shape = checked_causal_shape(w_any, temp_any, bias_any, position);
  const Sizes like_w = {shape.batch, shape.tokens, shape.channels()};
  const Sizes like_pi = {shape.batch, shape.heads, shape.tokens};
  const int64_t chunks = kernels::causal_chunks(shape.tokens);
  check_tensor("pi", pi_any, like_pi, ScalarType::Float);
  check_tensor("carry", carry_any, {shape.batch, chunks, 2 * shape.channels()}, ScalarType::Float);
  check_tensor("pi_carry", pi_carry_any, {shape.batch, chunks, shape.heads}, ScalarType::Double);
  const Gradients given(grad_y, grad_pi, shape, w_any);
  const auto w = adjacent_channels(w_any), temp = float_values(temp_any);
  const auto bias = float_values(bias_any);
  const auto pi = as_contiguous(pi_any), carry = as_contiguous(carry_any);
  const auto pi_carry = as_contiguous(pi_carry_any);
  const auto grad_w = empty_result(like_w, w.scalar_type());
  const auto grad_temp = empty_result({shape.heads, 1}, ScalarType::Float);
  const auto grad_bias = empty_result({shape.heads, bias.size(1), 1}, ScalarType::Float);

  kernels::CausalBackwardArgs args;
  args.shape = shape;
  args.dtype = kernel_dtype(w);
  args.w = tokens_in(w);
  args.grad_y = tokens_in(given.y);
  args.grad_pi = given.pi_values();
  args.temp = read<float>(temp);
  args.bias = {read<float>(bias), bias.size(1), position};
  args.pi = read<float>(pi);
  args.carry = read<float>(carry);
  args.pi_carry = read<double>(pi_carry);
  args.grad_w = tokens_out(grad_w);
  args.grad_temp = write<float>(grad_temp);
  args.grad_bias = write<float>(grad_bias);
  const int threads = torch_threads();
  const ScratchBlock workspace(kernels::causal_backward_workspace(args, threads));
  kernels::causal_backward(args, workspace.data(), torch_parallel, threads);
  return {grad_w, converted(grad_temp, temp_any.scalar_type()),
          converted(grad_bias, bias_any.scalar_type())};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("tssa_causal_forward", TORCH_BOX(&forward));
  m.impl("tssa_causal_backward", TORCH_BOX(&backward));
}

}  // namespace tost::python
