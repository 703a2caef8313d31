// Copies parameters and buffers of a module by their names in checkpoints.
#pragma once

#include <map>
#include <set>
#include <string>

#include "tost/torch.h"

namespace tost {

using StateDict = std::map<std::string, torch::Tensor>;

// Returns detached tensors that share the module's memory. Training changes the returned tensors,
// so clone them to store values.
StateDict state_dict(const torch::nn::Module& module);

// Copies every tensor into the module, converting between floating dtypes and devices. Throws a
// data Error naming the tensor, and changes nothing, for a missing or unexpected name, another
// shape, or a float in place of an integer.
void load_state_dict(torch::nn::Module& module, const StateDict& state);

// The number of bytes of all tensors.
int64_t tensor_bytes(const StateDict& state);

// The number of elements of all parameters; buffers are not counted.
int64_t parameter_count(const torch::nn::Module& module);

// The state-dictionary names of the weights of all Linear maps in `module`.
std::set<std::string> linear_weight_names(const torch::nn::Module& module);

// The names of all token tables ("wte") that are also the weight of the head.
std::set<std::string> token_table_names(const torch::nn::Module& module);

}  // namespace tost
