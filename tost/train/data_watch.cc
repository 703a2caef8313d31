#include "tost/train/data_watch.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "tost/base/parallel.h"

namespace tost {

struct DataWatch::Shared {
  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stop || (work && !done); });
      if (stop) return;
      lock.unlock();
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      error = failure;
      done = true;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> work;  // empty: none
  bool done = false, stop = false;
  std::exception_ptr error;
};

DataWatch::DataWatch()
    : shared_(std::make_shared<Shared>()),
      thread_(start_thread([shared = shared_] { shared->serve(); })) {}

DataWatch::~DataWatch() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool DataWatch::run(std::function<void()> work, double seconds,
                    const std::function<void()>& at_half) {
  const std::chrono::duration<double> half(seconds / 2);
  const auto ended = [this] { return shared_->done; };
  std::unique_lock lock(shared_->mutex);
  shared_->work = std::move(work);
  shared_->done = false;
  shared_->changed.notify_all();
  if (!shared_->changed.wait_for(lock, half, ended)) {
    lock.unlock();
    at_half();
    lock.lock();
    if (!shared_->changed.wait_for(lock, half, ended)) {
      thread_.detach();
      return false;
    }
  }
  shared_->work = nullptr;
  if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
  return true;
}

}  // namespace tost
