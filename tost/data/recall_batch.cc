#include "tost/data/recall_batch.h"

#include <algorithm>

namespace tost {

RecallBatch make_recall_batch(const RecallSource& source, const RecallCase& size,
                              const std::string& split, int64_t first, int64_t count) {
  source.check(size);
  RecallBatch batch;
  batch.ids = torch::empty({count, size.length}, torch::kInt64);
  batch.targets = torch::empty({count, size.length}, torch::kInt64);
  for (int64_t row = 0; row < count; ++row) {
    const RecallSample sample = source.sample(size, split, first + row);
    std::copy(sample.ids.begin(), sample.ids.end(), batch.ids[row].data_ptr<int64_t>());
    std::copy(sample.targets.begin(), sample.targets.end(), batch.targets[row].data_ptr<int64_t>());
    batch.distances.insert(batch.distances.end(), sample.distances.begin(), sample.distances.end());
  }
  return batch;
}

}  // namespace tost
