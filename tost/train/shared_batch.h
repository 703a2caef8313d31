// The part of a batch that belongs to one process.
#pragma once

#include <string>
#include <vector>

#include "tost/data/batch_share.h"
#include "tost/train/train_task.h"

namespace tost {

// Of each tensor that is defined, the rows of this process.
std::vector<torch::Tensor> rows_of(const BatchShare& share, std::vector<torch::Tensor> tensors);

// Of x [B, N] this process's tokens, N being a multiple of the parts.
torch::Tensor tokens_of(const BatchShare& share, const torch::Tensor& x);

// Throws a usage Error where `mixer` is not one of those whose tokens can be on several processes.
void check_split_mixer(const std::vector<std::string>& able, const std::string& mixer);

}  // namespace tost
