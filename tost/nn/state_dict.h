// Copies parameters and buffers by checkpoint name from a module and into one.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tost/torch.h"

namespace tost {

using StateDict = std::map<std::string, torch::Tensor>;

// Detached tensors that share the module's memory: later training steps change them. Clone them to
// store values.
StateDict state_dict(const torch::nn::Module& module);

// Copies every tensor in, converting between floating dtypes and across devices. Strict: a missing
// or unexpected name (with the nearest), another shape, or a float where an integer belongs is a
// data Error naming the tensor, and then nothing has been changed.
void load_state_dict(torch::nn::Module& module, const StateDict& state);

// The state of all its tensors.
int64_t tensor_bytes(const StateDict& state);

// The number of elements of all parameters; buffers are not counted.
int64_t parameter_count(const torch::nn::Module& module);

// State-dictionary names of the weights of all Linear maps below `module`.
std::set<std::string> linear_weight_names(const torch::nn::Module& module);

// The same of all tables of tokens that are also the head: rows of "wte".
std::set<std::string> token_table_names(const torch::nn::Module& module);

}  // namespace tost
