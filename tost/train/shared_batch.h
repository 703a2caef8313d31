// The part of a batch that belongs to one process.
#pragma once

#include <vector>

#include "tost/data/batch_share.h"
#include "tost/train/train_task.h"

namespace tost {

// Of each tensor that is defined, the rows of this process.
std::vector<torch::Tensor> rows_of(const BatchShare& share, std::vector<torch::Tensor> tensors);

// Ids, targets and the rows that are asked for, as LanguageModel::loss() takes them. The loss is a
// mean over targets, so that a part weighs as many as it has. `samples`: of the whole batch.
TaskInput language_input(const BatchShare& share, const torch::Tensor& ids,
                         const torch::Tensor& targets, int64_t samples);

}  // namespace tost
