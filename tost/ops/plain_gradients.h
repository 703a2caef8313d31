// Gradients that can be differentiated again, of operators whose own backward cannot.
#pragma once

#include <torch/csrc/autograd/variable.h>

namespace tost {

// dL/dinput of every input that wants one, through `outputs`, an operator's plain form of them; an
// undefined gradient counts as zero, and an undefined input gets none.
torch::autograd::variable_list plain_gradients(const torch::autograd::variable_list& outputs,
                                               const torch::autograd::variable_list& inputs,
                                               const torch::autograd::variable_list& grads);

}  // namespace tost
