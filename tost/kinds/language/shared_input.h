// What a process reads of a batch of texts.
#pragma once

#include "tost/kinds/language/model.h"
#include "tost/train/shared_batch.h"

namespace tost {

// Ids, targets and the rows that are asked for, as LanguageModel::loss() takes them. The loss is a
// mean over targets, so that a part weighs as many as it has. `samples`: of the whole batch.
// Where processes hold parts of the tokens, this one's.
TaskInput language_input(const BatchShare& share, const torch::Tensor& ids,
                         const torch::Tensor& targets, int64_t samples);

// Throws a usage Error where texts of so many tokens cannot be divided into equal parts, or not
// with the model's mixers.
void check_language_parts(const LanguageConfig& config, int64_t tokens, int64_t parts);

}  // namespace tost
