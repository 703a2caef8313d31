// The part of a batch that belongs to one process.
#pragma once

#include <vector>

#include "tost/data/batch_share.h"
#include "tost/train/train_task.h"

namespace tost {

// Of each tensor that is defined, the rows of this process.
std::vector<torch::Tensor> rows_of(const BatchShare& share, std::vector<torch::Tensor> tensors);

}  // namespace tost
