// Batches of recall samples.
#pragma once

#include "tost/data/recall_data.h"
#include "tost/torch.h"

namespace tost {

struct RecallBatch {
  torch::Tensor ids;               // [B, T] int64
  torch::Tensor targets;           // [B, T] int64, -1 where nothing is asked
  std::vector<int64_t> distances;  // one a target that is not -1, in row-major order
};

// Samples first ... first + count - 1 of the split. Throws what sample() throws.
RecallBatch make_recall_batch(const RecallSource& source, const RecallCase& size,
                              const std::string& split, int64_t first, int64_t count);

}  // namespace tost
