// Computes values on threads in advance, and returns the values in order. Free of torch.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tost/base/parallel.h"

namespace tost {

// Must be used from one thread. The destructor may be called at any time.
template <class Value>
class Prefetch {
 public:
  using Make = std::function<Value(int64_t number)>;

  // Returns make(numbers[0]), make(numbers[1]) and so on. `workers` threads compute at most `ahead`
  // (at least 1) values in advance. With 0 workers, next() calls `make`. The values do not depend
  // on `workers` and `ahead`.
  Prefetch(std::vector<int64_t> numbers, int64_t workers, int64_t ahead, Make make)
      : numbers_(std::move(numbers)), ahead_(size_t(ahead)), make_(std::move(make)) {
    try {
      for (int64_t i = 0; i < std::min(workers, std::ssize(numbers_)); ++i) {
        workers_.push_back(start_thread([this] { work(); }));
      }
    } catch (...) {
      end_workers();
      throw;
    }
  }
  ~Prefetch() { end_workers(); }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The next value; nothing after the last one. After `make` has thrown, all calls of next() throw
  // the exception.
  std::optional<Value> next() {
    if (taken_ == numbers_.size()) return std::nullopt;
    const auto start = std::chrono::steady_clock::now();
    if (workers_.empty()) ready_.emplace(taken_, made(taken_));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.contains(taken_); });
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    wait_seconds_ += waited.count();
    const auto found = ready_.find(taken_);
    if (found->second.failure) std::rethrow_exception(found->second.failure);
    std::optional<Value> value = std::move(found->second.value);
    ready_.erase(found);
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    return value;
  }

  double wait_seconds() const { return wait_seconds_; }  // of next(), in all

 private:
  struct Made {
    std::optional<Value> value;
    std::exception_ptr failure;
  };

  Made made(size_t place) const {
    try {
      return {make_(numbers_[place]), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock,
                    [&] { return stop_ || begun_ == numbers_.size() || begun_ < taken_ + ahead_; });
      if (stop_ || begun_ == numbers_.size()) return;
      const size_t place = begun_++;
      lock.unlock();
      Made result = made(place);
      lock.lock();
      ready_.emplace(place, std::move(result));
      changed_.notify_all();
    }
  }

  void end_workers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  const std::vector<int64_t> numbers_;
  const size_t ahead_;
  const Make make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t begun_ = 0, taken_ = 0;  // places in numbers_; guarded by mutex_, as are the next two
  std::map<size_t, Made> ready_;  // by place
  bool stop_ = false;
  double wait_seconds_ = 0;
  std::vector<std::thread> workers_;  // last: they use all of the above
};

}  // namespace tost
