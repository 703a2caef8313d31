// Batches of sequences made ahead of their use by threads of its own.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
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
  // Gives the batches of `indices` in order, beginning with `first`. `workers` threads make them
  // (0: as many as torch computes with), at most `ahead` before they are asked for (0: two a
  // worker, at least 4). What is given depends on neither.
  SequenceFeed(std::shared_ptr<const SequenceDataset> dataset,
               std::vector<std::vector<int64_t>> indices, int64_t first, int64_t ahead = 0,
               int64_t workers = 0);
  ~SequenceFeed();
  SequenceFeed(const SequenceFeed&) = delete;
  SequenceFeed& operator=(const SequenceFeed&) = delete;

  // Nothing after the last batch. Throws what making that batch threw.
  std::optional<SequenceBatch> next();
  double wait_seconds() const { return wait_seconds_; }  // that next() has waited in all

 private:
  struct Made {
    SequenceBatch batch;
    std::exception_ptr failure;
  };

  void work();
  void end_workers();

  std::shared_ptr<const SequenceDataset> dataset_;
  std::vector<std::vector<int64_t>> indices_;
  size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t begun_, given_;          // batches; guarded by mutex_, as are the three below
  std::map<size_t, Made> ready_;  // by number, none below given_
  bool stop_ = false;
  double wait_seconds_ = 0;
  std::vector<std::thread> workers_;  // last: they use all of the above
};

}  // namespace tost
