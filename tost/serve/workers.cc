#include "tost/serve/workers.h"

#include <utility>

#include "tost/base/parallel.h"

namespace tost {

Workers::Workers(int64_t threads, int64_t queue) : queue_(size_t(queue)) {
  try {
    for (int64_t i = 0; i < threads; ++i) {
      threads_.push_back(start_thread([this] { loop(); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

bool Workers::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || works_.size() >= queue_) return false;
    works_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::loop() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !works_.empty(); });
      if (works_.empty()) return;
      work = std::move(works_.front());
      works_.pop_front();
    }
    try {
      work();
    } catch (const std::exception&) {
      // Ignores an exception, because memory is exhausted even for the message.
    }
  }
}

std::shared_ptr<void> Budget::take(int64_t amount) {
  if ((*taken_ += amount) > most_) {
    *taken_ -= amount;
    return nullptr;
  }
  return {taken_.get(), [taken = taken_, amount](void*) { *taken -= amount; }};
}

}  // namespace tost
