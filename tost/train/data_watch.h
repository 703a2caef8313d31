// Runs work with a time limit. Free of torch.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "tost/base/error.h"

namespace tost {

// Thrown if no batch arrived in time. The reading thread still uses the task, so the catcher must
// not destroy the task or its data.
class DataTimeout : public Error {
 public:
  using Error::Error;
};

// Must be used from one thread.
class DataWatch {
 public:
  DataWatch();
  // The destructor does not wait for aborted work.
  ~DataWatch();
  DataWatch(const DataWatch&) = delete;
  DataWatch& operator=(const DataWatch&) = delete;

  // Runs `work` on a separate thread (always the same one), waits for its end, and rethrows its
  // exception. Calls at_half on the caller's thread after half of `seconds`. Returns false after
  // `seconds`: the thread then continues, and the watch cannot be used again.
  bool run(std::function<void()> work, double seconds, const std::function<void()>& at_half);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // outlives this where the work was aborted
  std::thread thread_;
};

}  // namespace tost
