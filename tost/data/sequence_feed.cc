#include "tost/data/sequence_feed.h"

#include <algorithm>
#include <chrono>

namespace tost {

SequenceFeed::SequenceFeed(std::shared_ptr<const SequenceDataset> dataset,
                           std::vector<std::vector<int64_t>> indices, int64_t first, int64_t ahead)
    : dataset_(std::move(dataset)),
      indices_(std::move(indices)),
      ahead_(size_t(std::max<int64_t>(1, ahead))),
      worker_([this, first] { run(size_t(first)); }) {}

SequenceFeed::~SequenceFeed() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void SequenceFeed::run(size_t first) {
  for (size_t i = first; i < indices_.size(); ++i) {
    SequenceBatch batch;
    std::exception_ptr failure;
    try {
      batch = make_sequence_batch(*dataset_, indices_[i]);
    } catch (...) {
      failure = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || ready_.size() < ahead_; });
    if (stop_) return;
    failure_ = failure;
    if (failure_ == nullptr) ready_.push_back(std::move(batch));
    ended_ = failure_ != nullptr || i + 1 == indices_.size();
    changed_.notify_all();
    if (ended_) return;
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;  // nothing was to be made
  changed_.notify_all();
}

std::optional<SequenceBatch> SequenceFeed::next() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || !ready_.empty(); });
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (ready_.empty()) {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  SequenceBatch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace tost
