#include "tost/nn/branch_calls.h"

#include <ATen/autocast_mode.h>

#include <utility>

#include "tost/ops/plain_gradients.h"

namespace tost::branch {

using torch::autograd::variable_list;

torch::ScalarType compute_type(const Tensor& x) {
  return at::autocast::is_autocast_enabled(x.device().type()) ? torch::kBFloat16 : torch::kFloat;
}

Tensor in_type(const Tensor& weight, const Tensor& working, torch::ScalarType type) {
  if (type == weight.scalar_type()) return weight;
  return working.defined() ? working : weight.to(type);
}

void give_weight(variable_list& result, size_t place, const Tensor& working, Tensor gradient) {
  result[working.defined() && working.requires_grad() ? place + 1 : place] = std::move(gradient);
}

variable_list through_definition(const variable_list& outputs, const variable_list& inputs,
                                 const variable_list& grads) {
  return plain_gradients(outputs, inputs, grads);
}

}  // namespace tost::branch
