// Helpers of the operators tssa and tssa_causal, between the dispatcher and the kernels.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros_like.h>

#include "tost/ops/kernel_call.h"
#include "tost/ops/plain.h"

namespace tost {

using OptionalTensor = std::optional<at::Tensor>;

// Finds the operator "tost::name" in the dispatcher. The caller stores the result, because the
// search takes time.
template <class Signature>
c10::TypedOperatorHandle<Signature> inner_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Whether kernels take w: float32 and bfloat16 on the CPU, and on a device for which another
// library, such as the Python package, has kernels. Without kernels the plain form runs.
inline bool by_kernels(const at::Tensor& w) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("tost::tssa_forward", "");
  return w.scalar_type() != at::kDouble &&
         (w.is_cpu() || op.hasKernelForDispatchKey(w.options().computeDispatchKey()));
}

// The tensors y and pi, and those for backward: energy, moment and pi_sum, or the state and two
// kinds of sums.
using ForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Sets the arguments that all kernels share.
template <class Args>
void set_inputs(Args& args, const at::Tensor& w, const at::Tensor& temp) {
  args.shape = shape_of(w, temp.size(0));
  args.dtype = kernel_dtype(w);
  args.w = tokens_in(w);
  args.temp = temp.const_data_ptr<float>();
}

inline const float* floats_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

// Prepare the gradients for backward: dL/dy is zeros if undefined; dL/dPi may be undefined.
inline at::Tensor tokens_gradient(const OptionalTensor& grad_y, const at::Tensor& w) {
  return adjacent_channels(grad_y.has_value() ? grad_y->to(w.scalar_type()) : at::zeros_like(w));
}
inline at::Tensor membership_gradient(const OptionalTensor& grad_pi) {
  return grad_pi.has_value() ? float_values(*grad_pi) : at::Tensor();
}

}  // namespace tost
