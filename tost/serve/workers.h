// What bounds the work of a server: threads with a queue, and budgets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tost {

// Threads that take work from a bounded queue.
class Workers {
 public:
  // Throws a data Error if a thread cannot be started.
  Workers(int64_t threads, int64_t queue);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Queues `work`; exceptions do not end threads. Returns false if the queue is full or stopped.
  bool run(std::function<void()> work);
  // Refuses new work, runs the queued work and joins the threads. May be called more than once.
  void stop();

 private:
  void loop();

  const size_t queue_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> works_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// A limit for the sum of an amount over all requests in flight.
class Budget {
 public:
  explicit Budget(int64_t most) : most_(most) {}
  // Takes a part until the last copy of the result is destroyed; null if too little is left.
  std::shared_ptr<void> take(int64_t amount);
  int64_t taken() const { return *taken_; }

 private:
  const int64_t most_;
  const std::shared_ptr<std::atomic<int64_t>> taken_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace tost
