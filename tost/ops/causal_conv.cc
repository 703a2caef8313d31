// The causal convolution for autograd.
#include "tost/ops/causal_conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tost/kernels/causal_conv.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/inner_operator.h"
#include "tost/ops/kernel_call.h"
#include "tost/ops/plain_gradients.h"

namespace tost {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor causal_conv_plain(const Tensor& x, const Tensor& weight, const Tensor& past) {
  const int64_t taps = weight.size(0), tokens = x.size(1);
  const auto filter = weight.to(x.scalar_type());
  const auto before =
      past.defined() ? past : at::zeros({x.size(0), taps - 1, x.size(2)}, x.options());
  const auto all = at::cat({before, x}, 1);  // [B, taps - 1 + T, C]
  auto y = x * filter[taps - 1];
  for (int64_t i = 0; i + 1 < taps; ++i) {
    y = at::addcmul(y, all.narrow(1, i, tokens), filter[i]);
  }
  return y;
}

namespace {

// The kernel's arguments; what they point to lives here.
struct ConvTensors {
  ConvTensors(const Tensor& x_any, const Tensor& weight, const Tensor& past_any)
      : x(adjacent_channels(x_any)), past(past_any), filter(float_values(weight)) {
    args.batch = x.size(0), args.tokens = x.size(1), args.channels = x.size(2);
    args.taps = filter.size(0);
    args.dtype = kernel_dtype(x);
    args.x = tokens_in(x);
    if (past.defined()) past = adjacent_channels(past), args.past = tokens_in(past);
    args.filter = filter.const_data_ptr<float>();
  }

  Tensor x, past, filter;
  kernels::CausalConvArgs args;
};

Tensor run_conv(ConvTensors t) {
  Tensor y = empty_cached(t.x.sizes(), t.x.scalar_type());
  t.args.y = tokens_out(y);
  kernels::causal_conv(t.args, torch_parallel);
  return y;
}

class CausalConvFunction : public torch::autograd::Function<CausalConvFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& past) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weight, past.value_or(Tensor())});
    return run_conv({x, weight, past.value_or(Tensor())});
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto saved = context->get_saved_variables();
    if (c10::GradMode::is_enabled()) {
      return plain_gradients({causal_conv_plain(saved[0], saved[1], saved[2])},
                             {saved[0], saved[1], Tensor()}, grads);
    }
    const ConvTensors t(saved[0], saved[1], saved[2]);
    const Tensor grad_y = adjacent_channels(grads[0].to(t.x.scalar_type()));
    Tensor grad_x = empty_cached(t.x.sizes(), t.x.scalar_type());
    Tensor grad_filter = at::empty_like(t.filter);
    kernels::CausalConvGradArgs args;
    args.forward = t.args;
    args.grad_y = tokens_in(grad_y);
    args.grad_x = tokens_out(grad_x);
    args.grad_filter = grad_filter.mutable_data_ptr<float>();
    auto workspace = at::empty({kernels::causal_conv_grad_workspace(args)}, at::kFloat);
    kernels::causal_conv_grad(args, workspace.mutable_data_ptr<float>(), torch_parallel);
    return {grad_x, grad_filter.to(saved[1].scalar_type()), Tensor()};
  }
};

bool can_fuse_conv(const Tensor& x, const Tensor& weight, const Tensor& past) {
  const auto dtype = x.scalar_type();
  return x.is_cpu() && (dtype == at::kFloat || dtype == at::kBFloat16) &&
         weight.size(0) <= kernels::kMostTaps &&
         (!past.defined() ||
          (past.scalar_type() == dtype &&
           past.sizes() == at::IntArrayRef({x.size(0), weight.size(0) - 1, x.size(2)})));
}

}  // namespace

Tensor causal_conv(const Tensor& x, const Tensor& weight, const Tensor& past) {
  if (!can_fuse_conv(x, weight, past)) return causal_conv_plain(x, weight, past);
  if (c10::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad())) {
    return CausalConvFunction::apply(x, weight, if_defined(past));
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return run_conv({x, weight, past});
}

}  // namespace tost
