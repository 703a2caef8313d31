// Starts threads, and reports when the system has none left.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/path.h"

namespace tost {

// Starts a thread, or throws a data Error. The caller must then join the threads started before:
// destroying a std::thread that runs ends the program.
template <typename Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail_data("Cannot start a thread: ", system_reason(error.code().value()), ".");
  }
}

}  // namespace tost
