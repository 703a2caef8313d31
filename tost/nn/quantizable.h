// Which weights of a model may be held in fewer bits.
#pragma once

#include <set>
#include <string>

#include "tost/torch.h"

namespace tost {

// State-dictionary names of the weights of all Linear maps below `module`.
std::set<std::string> linear_weight_names(const torch::nn::Module& module);

// The same of all tables of tokens that are also the head: rows of "wte".
std::set<std::string> token_table_names(const torch::nn::Module& module);

}  // namespace tost
