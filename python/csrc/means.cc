// Group means on the CPU. Their schemas are here: the C++ library has no such operators.
#include "tost/kernels/means.h"

#include <torch/csrc/stable/library.h>

#include <cmath>

#include "tensors.h"

namespace tost::python {
namespace {

// The kernels' arguments, with the tensors that own their memory.
struct Inputs {
  Inputs(const Tensor& base_any, const Tensor& values_any, const Tensor& pi_any,
         const Tensor& scale_any, const OptionalTensor& log_rates, int64_t from_end) {
    if (values_any.dim() != 3 || pi_any.dim() != 3) {
      fail_usage("group_means: values and pi must be [batch, tokens, channels or heads], but have ",
                 values_any.dim(), " and ", pi_any.dim(), " dimensions.");
    }
    const int64_t batch = values_any.size(0), tokens = values_any.size(1);
    const int64_t channels = values_any.size(2), heads = pi_any.size(2);
    if (heads < 1 || channels < 1 || channels % heads != 0 || from_end < 0 || from_end > heads) {
      fail_usage("group_means: ", channels, " channels of ", heads, " heads, ", from_end,
                 " of them from the end; heads must divide the channels.");
    }
    like = {batch, tokens, channels}, like_pi = {batch, tokens, heads};
    check_tensor("base", base_any, like, base_any.scalar_type());
    check_tensor("values", values_any, like, values_any.scalar_type());
    check_tensor("pi", pi_any, like_pi, pi_any.scalar_type());
    check_tensor("scale", scale_any, {channels}, scale_any.scalar_type());
    in.shape = {batch, tokens, heads, channels / heads};
    sums = {batch, heads, in.shape.width + 1};
    carry = {batch, kernels::causal_chunks(tokens), heads, in.shape.width + 1};
    const auto half = ScalarType::BFloat16;
    const bool halves = base_any.scalar_type() == half && values_any.scalar_type() == half;
    dtype = halves ? half : ScalarType::Float;
    base = adjacent_channels(converted(base_any, dtype));
    values = adjacent_channels(converted(values_any, dtype));
    pi = float_values(pi_any), scale = float_values(scale_any);
    decay.assign(heads, 1.0);
    if (log_rates) {
      check_tensor("log_rates", *log_rates, {heads}, log_rates->scalar_type());
      const auto rates = as_contiguous(converted(*log_rates, ScalarType::Double));
      for (int64_t h = 0; h < heads; ++h) decay[h] = std::exp(read<double>(rates)[h]);
    }
    in.dtype = kernel_dtype(values);
    in.base = tokens_in(base), in.values = tokens_in(values);
    in.pi = read<float>(pi), in.scale = read<float>(scale), in.decay = decay.data();
    in.from_end = from_end;
  }

  Sizes like, like_pi, sums, carry;
  ScalarType dtype;
  Tensor base, values, pi, scale;
  std::vector<double> decay;
  kernels::MeansInputs in;
};

std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& base, const Tensor& values,
                                           const Tensor& pi, const Tensor& scale,
                                           const OptionalTensor& log_rates,
                                           const OptionalTensor& state_any, int64_t from_end) {
  const Inputs inputs(base, values, pi, scale, log_rates, from_end);
  kernels::MeansForwardArgs args;
  args.in = inputs.in;
  Tensor state;
  if (state_any) {
    check_tensor("state", *state_any, inputs.sums, state_any->scalar_type());
    state = as_contiguous(converted(*state_any, ScalarType::Double));
    args.state = read<double>(state);
  }
  const auto y = empty_result(inputs.like, inputs.dtype);
  const auto after = empty_result(inputs.sums, ScalarType::Double);
  const auto carry = empty_result(inputs.carry, ScalarType::Float);
  args.y = tokens_out(y);
  args.next_state = write<double>(after);
  args.carry = write<float>(carry);
  const ScratchBlock workspace(kernels::means_forward_workspace(args));
  kernels::means_forward(args, workspace.data(), torch_parallel);
  return {converted(y, base.scalar_type()), converted(after, ScalarType::Float), carry};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(const Tensor& grad_any, const Tensor& values,
                                                    const Tensor& pi, const Tensor& scale,
                                                    const OptionalTensor& log_rates,
                                                    int64_t from_end, const Tensor& carry_any) {
  // The gradients do not depend on base, whose type is that of grad_y.
  const Inputs inputs(grad_any, values, pi, scale, log_rates, from_end);
  check_tensor("carry", carry_any, inputs.carry, ScalarType::Float);
  const auto carry = as_contiguous(carry_any);
  kernels::MeansBackwardArgs args;
  args.in = inputs.in;
  args.carry = read<float>(carry);
  args.grad_y = inputs.in.base;
  const auto grad_values = empty_result(inputs.like, inputs.dtype);
  const auto grad_pi = empty_result(inputs.like_pi, ScalarType::Float);
  const auto grad_scale = empty_result({inputs.like[2]}, ScalarType::Float);
  const auto grad_rates = empty_result({inputs.like_pi[2]}, ScalarType::Float);
  std::vector<double> grad_decay(inputs.decay.size());
  args.grad_values = tokens_out(grad_values);
  args.grad_pi = write<float>(grad_pi);
  args.grad_scale = write<float>(grad_scale);
  args.grad_decay = grad_decay.data();
  const ScratchBlock workspace(kernels::means_backward_workspace(args));
  kernels::means_backward(args, workspace.data(), torch_parallel);
  for (size_t h = 0; h < grad_decay.size(); ++h) {
    write<float>(grad_rates)[h] = static_cast<float>(grad_decay[h] * inputs.decay[h]);
  }
  return {converted(grad_values, values.scalar_type()), converted(grad_pi, pi.scalar_type()),
          converted(grad_scale, scale.scalar_type()), grad_rates};
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(tost, m) {
  m.def(
      "means_forward(Tensor base, Tensor values, Tensor pi, Tensor scale, Tensor? log_rates, "
      "Tensor? state, int from_end) -> (Tensor y, Tensor state, Tensor carry)");
  m.def(
      "means_backward(Tensor grad_y, Tensor values, Tensor pi, Tensor scale, Tensor? log_rates, "
      "int from_end, Tensor carry) -> (Tensor grad_values, Tensor grad_pi, Tensor grad_scale, "
      "Tensor grad_log_rates)");
}
STABLE_TORCH_LIBRARY_IMPL(tost, CPU, m) {
  m.impl("means_forward", TORCH_BOX(&forward));
  m.impl("means_backward", TORCH_BOX(&backward));
}

}  // namespace tost::python
