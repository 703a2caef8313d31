// Batches of token sequences, padded to the longest of each batch; threads prefetch them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/data/prefetch.h"
#include "tost/data/sequence_dataset.h"
#include "tost/torch.h"

namespace tost {

struct SequenceBatch {
  torch::Tensor ids;             // [B, N] int64, padding 0 after each sequence
  torch::Tensor lengths;         // [B] int64
  torch::Tensor second;          // [B, M] of pairs; undefined for single sequences
  torch::Tensor second_lengths;  // [B]
  torch::Tensor labels;          // [B] int64
};

// Throws what sample() throws.
SequenceBatch make_sequence_batch(const SequenceDataset& dataset,
                                  const std::vector<int64_t>& indices);

struct SequenceOrder {
  bool shuffle = false;
  // The number of shuffled batches whose samples are sorted by length together, cut into batches,
  // and shuffled again. Sorting reduces padding; 1 means no sorting.
  int64_t length_groups = 1;
  uint64_t seed = 0;
};

// The indices of the samples of every batch of an epoch, a function of the arguments. Without
// `drop_last` the last batch may be smaller. Throws a usage Error for a batch below 1.
std::vector<std::vector<int64_t>> sequence_batches(const SequenceDataset& dataset, int64_t batch,
                                                   const SequenceOrder& order, int64_t epoch,
                                                   bool drop_last);

// Prefetches the batches of an epoch.
class SequenceFeed : public Prefetch<SequenceBatch> {
 public:
  // Returns the batches of `indices` in order, beginning with `first`. `workers` 0 means torch's
  // number of threads; `ahead` 0 means two batches for each worker, at least 4.
  SequenceFeed(std::shared_ptr<const SequenceDataset> dataset,
               std::vector<std::vector<int64_t>> indices, int64_t first, int64_t ahead = 0,
               int64_t workers = 0);
};

}  // namespace tost
