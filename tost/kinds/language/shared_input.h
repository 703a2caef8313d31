// What a process reads of a batch of texts.
#pragma once

#include "tost/kinds/language/model.h"
#include "tost/train/shared_batch.h"

namespace tost {

// Ids, targets and the rows that are asked for, as LanguageModel::loss() takes them. The loss is a
// mean over targets, so that a part weighs as many as it has. `samples`: of the whole batch.
TaskInput language_input(const BatchShare& share, const torch::Tensor& ids,
                         const torch::Tensor& targets, int64_t samples);

}  // namespace tost
