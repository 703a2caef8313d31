// What a process reads of a batch of sequences.
#pragma once

#include "tost/data/sequence_batch.h"
#include "tost/train/train_task.h"

namespace tost {

// Ids and lengths of the first and the second sequences, and labels. Lengths are undefined where
// nothing is padded. Where processes hold parts of the tokens, this one's.
TaskInput sequence_input(const BatchShare& share, const SequenceBatch& batch);

}  // namespace tost
