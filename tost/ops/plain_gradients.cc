#include "tost/ops/plain_gradients.h"

#include <torch/csrc/autograd/autograd.h>

namespace tost {

using torch::autograd::variable_list;

variable_list plain_gradients(const variable_list& outputs, const variable_list& inputs,
                              const variable_list& grads) {
  variable_list ends, starts, wanted, result(inputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (grads[i].defined()) ends.push_back(outputs[i]), starts.push_back(grads[i]);
  }
  for (const auto& input : inputs) {
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

}  // namespace tost
