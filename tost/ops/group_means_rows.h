// The inner operators of group_means.h, the same for every device: `Device` says how a kernel is
// run there. Callers have checked their arguments.
#pragma once

#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "tost/base/error.h"
#include "tost/kernels/group_means.h"
#include "tost/ops/group_means.h"
#include "tost/ops/kernel_args.h"

namespace tost {

// The arguments of an operator, which has no undefined tensors, as one call.
inline MeansCall means_call(const at::Tensor& base, const at::Tensor& values,
                            const OptionalTensor& gate, const at::Tensor& pi,
                            const OptionalTensor& log_rates, int64_t from_end) {
  return {base,    values, gate.value_or(at::Tensor()), pi, log_rates.value_or(at::Tensor()),
          from_end};
}

// The kernels' inputs; what they point to lives here.
struct MeansTensors {
  MeansTensors(const MeansCall& call, const at::Tensor& scale_any)
      : base(adjacent_channels(call.base)),
        values(adjacent_channels(call.values)),
        gate(call.gate.defined() ? adjacent_channels(call.gate) : call.gate),
        pi(float_values(call.pi)),
        decay(call.log_rates.defined() ? call.log_rates.to(at::kDouble).exp().contiguous()
                                       : at::ones({pi.size(2)}, pi.options().dtype(at::kDouble))),
        scale(float_values(scale_any)) {
    for (const at::Tensor& x : {base, gate, pi, decay, scale}) {
      TORCH_CHECK(!x.defined() || x.device() == values.device(),
                  "group means are given tensors of ", values.device(), " and of ", x.device());
    }
    in.shape = shape_of(values, pi.size(2));
    in.dtype = kernel_dtype(values);
    in.values = tokens_in(values);
    in.base = tokens_in(base);
    if (gate.defined()) in.gate = tokens_in(gate);
    in.pi = pi.const_data_ptr<float>();
    in.decay = decay.const_data_ptr<double>();
    in.scale = scale.const_data_ptr<float>();
    in.from_end = call.from_end;
  }

  at::Tensor base, values, gate, pi, decay, scale;
  kernels::MeansInputs in;
};

inline void check_sums(const at::Tensor& sums, const MeansTensors& t) {
  const auto& shape = t.in.shape;
  const std::vector<int64_t> wanted{shape.batch, shape.heads, shape.width + 1};
  if (sums.sizes().equals(wanted) && sums.scalar_type() == at::kDouble &&
      sums.device() == t.values.device()) {
    return;
  }
  fail_usage("The state of group means must be float64 ", at::IntArrayRef(wanted), " on ",
             t.values.device(), ", but is ", sums.scalar_type(), " ", sums.sizes(), " on ",
             sums.device(), "; read the same number of texts on, or start again.");
}

template <class Device>
struct MeansRows {
  using Tensor = at::Tensor;

  // y, the sums after the last token, and with `keep` those before each chunk.
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& base, const Tensor& values,
                                                    const OptionalTensor& gate, const Tensor& pi,
                                                    const OptionalTensor& log_rates,
                                                    const Tensor& scale, const OptionalTensor& sums,
                                                    int64_t from_end, bool keep) {
    const typename Device::Guard guard(values.device());
    const MeansTensors t(means_call(base, values, gate, pi, log_rates, from_end), scale);
    const auto empty = Device::empty(values);
    const auto& shape = t.in.shape;
    kernels::MeansForwardArgs args;
    args.in = t.in;
    Tensor before;
    if (given(sums)) {
      check_sums(*sums, t);
      before = sums->contiguous();
      args.state = before.const_data_ptr<double>();
    }
    const Tensor y = empty(values.sizes(), values.scalar_type());
    const Tensor after = empty({shape.batch, shape.heads, shape.width + 1}, at::kDouble);
    const int64_t chunks = keep ? kernels::causal_chunks(shape.tokens) : 0;
    const Tensor carry = empty({shape.batch, chunks, shape.heads, shape.width + 1}, at::kFloat);
    args.y = tokens_out(y);
    args.next_state = after.mutable_data_ptr<double>();
    if (keep) args.carry = carry.mutable_data_ptr<float>();
    Device::run(args, values);
    return {y, after, carry};
  }

  // Gradients of base and gate (empty without a gate), values, pi, decay [H] float64 and scale.
  static std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> backward(
      const Tensor& grad_any, const Tensor& base, const Tensor& values, const OptionalTensor& gate,
      const Tensor& pi, const OptionalTensor& log_rates, const Tensor& scale, const Tensor& carry,
      int64_t from_end) {
    const typename Device::Guard guard(values.device());
    const MeansTensors t(means_call(base, values, gate, pi, log_rates, from_end), scale);
    const Tensor grad_y = adjacent_channels(grad_any.to(values.scalar_type()));
    const auto empty = Device::empty(values);
    const auto like = [&](const Tensor& x) {
      return x.defined() ? empty(x.sizes(), x.scalar_type()) : empty({0}, t.values.scalar_type());
    };
    const Tensor grad_base = like(t.gate), grad_gate = like(t.gate), grad_values = like(t.values);
    const Tensor grad_pi = like(t.pi), grad_decay = like(t.decay), grad_scale = like(t.scale);
    kernels::MeansBackwardArgs args;
    args.in = t.in;
    args.carry = carry.const_data_ptr<float>();
    args.grad_y = tokens_in(grad_y);
    args.grad_values = tokens_out(grad_values);
    if (t.gate.defined()) {
      args.grad_base = tokens_out(grad_base);
      args.grad_gate = tokens_out(grad_gate);
    }
    args.grad_pi = grad_pi.mutable_data_ptr<float>();
    args.grad_scale = grad_scale.mutable_data_ptr<float>();
    args.grad_decay = grad_decay.mutable_data_ptr<double>();
    Device::run(args, values);
    return {grad_base, grad_gate, grad_values, grad_pi, grad_decay, grad_scale};
  }

  static void give_to(torch::Library& m) {
    m.impl("_means_forward", forward);
    m.impl("_means_backward", backward);
  }
};

}  // namespace tost
