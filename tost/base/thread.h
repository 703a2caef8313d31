// Starts threads, and reports if the system cannot start another one.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/path.h"

namespace tost {

// Starts a thread, or throws a data Error. After an Error the caller must join its other threads,
// because the destructor of a running std::thread ends the program.
template <typename Work>
std::thread start_thread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    fail_data("Cannot start a thread: ", system_reason(error.code().value()), ".");
  }
}

}  // namespace tost
