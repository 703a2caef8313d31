// Threads that take work from a bounded queue. Free of torch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tost {

class Workers {
 public:
  // Starts threads, each of which first runs `begin`. Throws a data Error if a thread cannot start.
  Workers(int64_t threads, int64_t queue, std::function<void()> begin = {});
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

}  // namespace tost
