// From the vectors of sequences, or of pairs of them, to logits.
#pragma once

#include <cstdint>

#include "tost/kinds/sequence/engine_weights.h"
#include "tost/kinds/sequence/engine_workspace.h"

namespace tost {

// first [batch, C] and, of pairs, second [batch, C] → logits [batch, classes], at most `tile_rows`
// rows at a time on the calling thread.
void run_sequence_head(const SequenceWeights& weights, const SequenceWorkspace& workspace,
                       int64_t tile_rows, const float* first, const float* second, int64_t batch,
                       float* logits);

}  // namespace tost
