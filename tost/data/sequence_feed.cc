#include "tost/data/sequence_feed.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "tost/base/thread.h"

namespace tost {

SequenceFeed::SequenceFeed(std::shared_ptr<const SequenceDataset> dataset,
                           std::vector<std::vector<int64_t>> indices, int64_t first, int64_t ahead,
                           int64_t workers)
    : dataset_(std::move(dataset)),
      indices_(std::move(indices)),
      begun_(size_t(std::max<int64_t>(0, first))),
      given_(begun_) {
  if (workers <= 0) workers = at::get_num_threads();
  if (ahead <= 0) ahead = std::max<int64_t>(4, 2 * workers);
  ahead_ = size_t(ahead);
  const int64_t left = int64_t(indices_.size()) - first;
  try {
    for (int64_t i = 0; i < std::min({workers, ahead, left}); ++i) {
      workers_.push_back(start_thread([this] { work(); }));
    }
  } catch (...) {
    end_workers();
    throw;
  }
}

SequenceFeed::~SequenceFeed() {
  end_workers();
}

void SequenceFeed::end_workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void SequenceFeed::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock,
                  [&] { return stop_ || begun_ == indices_.size() || begun_ < given_ + ahead_; });
    if (stop_ || begun_ == indices_.size()) return;
    const size_t number = begun_++;
    lock.unlock();
    Made made;
    try {
      made.batch = make_sequence_batch(*dataset_, indices_[number]);
    } catch (...) {
      made.failure = std::current_exception();
    }
    lock.lock();
    ready_.emplace(number, std::move(made));
    changed_.notify_all();
  }
}

std::optional<SequenceBatch> SequenceFeed::next() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (given_ >= indices_.size()) return std::nullopt;
  changed_.wait(lock, [&] { return ready_.contains(given_); });
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto found = ready_.find(given_);
  // A failure stays: asked again, it is thrown again.
  if (found->second.failure != nullptr) std::rethrow_exception(found->second.failure);
  SequenceBatch batch = std::move(found->second.batch);
  ready_.erase(found);
  ++given_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace tost
