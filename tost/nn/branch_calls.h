// What the differentiable functions of branch*.cc share.
#pragma once

#include <optional>
#include <utility>

#include "tost/nn/device_autocast.h"
#include "tost/ops/mlp_grad.h"
#include "tost/ops/plain.h"
#include "tost/torch.h"

namespace tost::branch {

using torch::Tensor;

// Inside the functions every type is chosen by hand, and nothing is recorded.
struct Raw {
  at::AutoDispatchBelowAutograd below;
  WithoutAutocast own_types;
};

// Inputs that may be missing, as torch's functions take them.
using Optional = std::optional<Tensor>;
inline Optional given(const Tensor& x) {
  return x.defined() ? Optional(x) : std::nullopt;
}
inline Tensor or_none(const Optional& x) {
  return x.has_value() ? *x : Tensor();
}

// Of matrix products: bfloat16 under autocast of x's device, else float32.
inline torch::ScalarType compute_type(const Tensor& x) {
  return at::autocast::is_autocast_enabled(x.device().type()) ? torch::kBFloat16 : torch::kFloat;
}

// A matrix in that type: itself, its working copy, or a rounded one.
inline Tensor in_type(const Tensor& weight, const Tensor& working, torch::ScalarType type) {
  if (type == weight.scalar_type()) return weight;
  return working.defined() ? working : weight.to(type);
}

// A matrix's gradient goes to its working copy, which follows it among the inputs, if that requires
// a gradient.
inline void give_weight(torch::autograd::variable_list& result, size_t place, const Tensor& working,
                        Tensor gradient) {
  result[working.defined() && working.requires_grad() ? place + 1 : place] = std::move(gradient);
}

}  // namespace tost::branch
