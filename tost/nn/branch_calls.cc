#include "tost/nn/branch_calls.h"

#include <ATen/autocast_mode.h>

#include <utility>

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
  variable_list ends, starts, wanted, result(inputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (grads[i].defined()) ends.push_back(outputs[i]), starts.push_back(grads[i]);
  }
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) wanted.push_back(input);
  }
  const auto found = torch::autograd::grad(ends, wanted, starts, /*retain_graph=*/true,
                                           /*create_graph=*/true, /*allow_unused=*/true);
  auto next = found.begin();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].requires_grad()) result[i] = *next++;
  }
  return result;
}

}  // namespace tost::branch
