// Threads of one's own, where the system has one left.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/path.h"

namespace tost {

// A data Error where the thread cannot be made. What was started before it is the caller's to end:
// a std::thread that is destroyed while it runs ends the program.
template <typename Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail_data("Cannot start a thread: ", system_reason(error.code().value()), ".");
  }
}

}  // namespace tost
