// Starts threads, and reports when the system has none left.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/path.h"

namespace tost {

// A data Error where the thread cannot be made. The caller must join the threads started before: a
// std::thread that is destroyed while it runs ends the program.
template <typename Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail_data("Cannot start a thread: ", system_reason(error.code().value()), ".");
  }
}

}  // namespace tost
