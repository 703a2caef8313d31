// Work with a time limit. Free of torch.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "tost/base/error.h"

namespace tost {

// No batch came in time. The reading thread still uses the task: leak the task, with all that it
// uses.
class DataTimeout : public Error {
 public:
  using Error::Error;
};

// For use from one thread.
class DataWatch {
 public:
  DataWatch();
  // Waits for no work that was aborted.
  ~DataWatch();
  DataWatch(const DataWatch&) = delete;
  DataWatch& operator=(const DataWatch&) = delete;

  // Does `work` on a thread of its own, always the same one, and waits for its end; throws what it
  // throws. After half of `seconds` calls at_half, here, once. False when `seconds` have passed:
  // the thread is then left with the work, and the watch of no more use.
  bool run(std::function<void()> work, double seconds, const std::function<void()>& at_half);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // outlives this where the work was aborted
  std::thread thread_;
};

}  // namespace tost
