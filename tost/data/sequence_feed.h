// Batches of sequences made ahead of their use by a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tost/data/sequence_batch.h"

namespace tost {

// For use from one thread. The destructor may come at any time.
class SequenceFeed {
 public:
  // Makes the batches of `indices` in order, beginning with `first`, at most `ahead` before they
  // are asked for. `ahead` is at least 1.
  SequenceFeed(std::shared_ptr<const SequenceDataset> dataset,
               std::vector<std::vector<int64_t>> indices, int64_t first, int64_t ahead = 4);
  ~SequenceFeed();
  SequenceFeed(const SequenceFeed&) = delete;
  SequenceFeed& operator=(const SequenceFeed&) = delete;

  // Nothing after the last batch. Throws what making that batch threw.
  std::optional<SequenceBatch> next();
  double wait_seconds() const { return wait_seconds_; }  // that next() has waited in all

 private:
  void run(size_t first);

  std::shared_ptr<const SequenceDataset> dataset_;
  std::vector<std::vector<int64_t>> indices_;
  size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SequenceBatch> ready_;  // guarded by mutex_, as are the three below
  std::exception_ptr failure_;
  bool ended_ = false, stop_ = false;
  double wait_seconds_ = 0;
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace tost
