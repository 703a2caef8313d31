// The arguments of the TSSA kernels from tensors, the same on every device. The call owns the
// memory that the pointers refer to; `empty(sizes, dtype)` makes the results.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros_like.h>

#include "tost/kernels/tssa_causal.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/plain.h"

namespace tost {

using OptionalTensor = std::optional<at::Tensor>;

// The operator of that name, "tost::name", through the dispatcher. Looking it up takes time: store
// it.
template <class Signature>
c10::TypedOperatorHandle<Signature> inner_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

inline const float* floats_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

// Gradients of both forms: dL/dy, zeros where there is none, and dL/dPi or undefined.
inline at::Tensor tokens_gradient(const OptionalTensor& grad_y, const at::Tensor& w) {
  return adjacent_channels(grad_y.has_value() ? grad_y->to(w.scalar_type()) : at::zeros_like(w));
}
inline at::Tensor membership_gradient(const OptionalTensor& grad_pi) {
  return grad_pi.has_value() ? float_values(*grad_pi) : at::Tensor();
}

struct TssaForwardCall {
  // `keep`: with the sums that backward needs.
  template <class Empty>
  TssaForwardCall(const at::Tensor& w_any, const at::Tensor& temp_any,
                  const at::Tensor& lengths_any, bool keep, Empty empty)
      : w(adjacent_channels(w_any)),
        temp(float_values(temp_any)),
        lengths(lengths_any),
        y(empty(w.sizes(), w.scalar_type())) {
    const int64_t batch = w.size(0), channels = w.size(2), heads = temp.size(0);
    pi = empty({batch, heads, w.size(1)}, at::kFloat);
    args.shape = shape_of(w, heads);
    args.dtype = kernel_dtype(w);
    args.w = tokens_in(w);
    args.temp = temp.const_data_ptr<float>();
    args.lengths = lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr;
    args.y = tokens_out(y);
    args.pi = pi.template mutable_data_ptr<float>();
    if (!keep) return;
    energy = empty({batch, channels}, at::kFloat);
    moment = empty({batch, channels}, at::kFloat);
    pi_sum = empty({batch, heads}, at::kFloat);
    args.energy = energy.template mutable_data_ptr<float>();
    args.moment = moment.template mutable_data_ptr<float>();
    args.pi_sum = pi_sum.template mutable_data_ptr<float>();
  }

  at::Tensor w, temp, lengths, y, pi, energy, moment, pi_sum;
  kernels::TssaForwardArgs args;
};

struct TssaSaved {
  const at::Tensor &pi, &energy, &moment, &pi_sum;
};

struct TssaBackwardCall {
  template <class Empty>
  TssaBackwardCall(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                   const at::Tensor& w_any, const at::Tensor& temp_any, const TssaSaved& saved,
                   const at::Tensor& lengths_any, Empty empty)
      : w(adjacent_channels(w_any)),
        temp(float_values(temp_any)),
        lengths(lengths_any),
        gy(tokens_gradient(grad_y, w)),
        gpi(membership_gradient(grad_pi)),
        pi(saved.pi.contiguous()),
        energy(saved.energy.contiguous()),
        moment(saved.moment.contiguous()),
        pi_sum(saved.pi_sum.contiguous()),
        grad_w(empty(w.sizes(), w.scalar_type())),
        grad_temp(empty(temp.sizes(), at::kFloat)) {
    args.shape = shape_of(w, temp.size(0));
    args.dtype = kernel_dtype(w);
    args.w = tokens_in(w);
    args.grad_y = tokens_in(gy);
    args.grad_pi = floats_or_null(gpi);
    args.temp = temp.const_data_ptr<float>();
    args.lengths = lengths.defined() ? lengths.const_data_ptr<int64_t>() : nullptr;
    args.pi = pi.const_data_ptr<float>();
    args.energy = energy.const_data_ptr<float>();
    args.moment = moment.const_data_ptr<float>();
    args.pi_sum = pi_sum.const_data_ptr<float>();
    args.grad_w = tokens_out(grad_w);
    args.grad_temp = grad_temp.template mutable_data_ptr<float>();
  }

  at::Tensor w, temp, lengths, gy, gpi, pi, energy, moment, pi_sum, grad_w, grad_temp;
  kernels::TssaBackwardArgs args;
};

struct CausalForwardCall {
  // `keep`: with the sums at the chunks' ends that backward needs.
  template <class Empty>
  CausalForwardCall(const at::Tensor& w_any, const at::Tensor& temp_any,
                    const at::Tensor& denom_bias, const OptionalTensor& before, int64_t position,
                    bool keep, Empty empty)
      : w(adjacent_channels(w_any)),
        temp(float_values(temp_any)),
        bias(float_values(denom_bias)),
        state(is_defined(before) ? before->contiguous() : at::Tensor()),
        y(empty(w.sizes(), w.scalar_type())) {
    const int64_t batch = w.size(0), heads = temp.size(0);
    args.shape = shape_of(w, heads);
    args.dtype = kernel_dtype(w);
    pi = empty({batch, heads, w.size(1)}, at::kFloat);
    after = empty({batch, kernels::causal_state_size(args.shape)}, at::kDouble);
    args.w = tokens_in(w);
    args.temp = temp.const_data_ptr<float>();
    args.bias = {bias.const_data_ptr<float>(), bias.size(1), position};
    args.state = state.defined() ? state.const_data_ptr<double>() : nullptr;
    args.y = tokens_out(y);
    args.next_state = after.template mutable_data_ptr<double>();
    args.pi = pi.template mutable_data_ptr<float>();
    if (!keep) return;
    const int64_t chunks = kernels::causal_chunks(w.size(1));
    carry = empty({batch, chunks, 2 * w.size(2)}, at::kFloat);
    pi_carry = empty({batch, chunks, heads}, at::kDouble);
    args.carry = carry.template mutable_data_ptr<float>();
    args.pi_carry = pi_carry.template mutable_data_ptr<double>();
  }

  at::Tensor w, temp, bias, state, y, pi, after, carry, pi_carry;
  kernels::CausalForwardArgs args;
};

struct CausalSaved {
  const at::Tensor &pi, &carry, &pi_carry;
};

struct CausalBackwardCall {
  template <class Empty>
  CausalBackwardCall(const OptionalTensor& grad_y, const OptionalTensor& grad_pi,
                     const at::Tensor& w_any, const at::Tensor& temp_any,
                     const at::Tensor& denom_bias, int64_t position, const CausalSaved& saved,
                     Empty empty)
      : w(adjacent_channels(w_any)),
        temp(float_values(temp_any)),
        bias(float_values(denom_bias)),
        gy(tokens_gradient(grad_y, w)),
        gpi(membership_gradient(grad_pi)),
        pi(saved.pi.contiguous()),
        carry(saved.carry.contiguous()),
        pi_carry(saved.pi_carry.contiguous()),
        grad_w(empty(w.sizes(), w.scalar_type())),
        grad_temp(empty(temp.sizes(), at::kFloat)),
        grad_bias(empty(bias.sizes(), at::kFloat)) {
    args.shape = shape_of(w, temp.size(0));
    args.dtype = kernel_dtype(w);
    args.w = tokens_in(w);
    args.grad_y = tokens_in(gy);
    args.grad_pi = floats_or_null(gpi);
    args.temp = temp.const_data_ptr<float>();
    args.bias = {bias.const_data_ptr<float>(), bias.size(1), position};
    args.pi = pi.const_data_ptr<float>();
    args.carry = carry.const_data_ptr<float>();
    args.pi_carry = pi_carry.const_data_ptr<double>();
    args.grad_w = tokens_out(grad_w);
    args.grad_temp = grad_temp.template mutable_data_ptr<float>();
    args.grad_bias = grad_bias.template mutable_data_ptr<float>();
  }

  at::Tensor w, temp, bias, gy, gpi, pi, carry, pi_carry, grad_w, grad_temp, grad_bias;
  kernels::CausalBackwardArgs args;
};

}  // namespace tost
