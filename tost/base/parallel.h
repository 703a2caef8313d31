// Threads: those of the caller for code without torch, and new ones.
// A caller with torch passes at::parallel_for, so one setting controls all threads, and nested
// regions do not oversubscribe the cores.
#pragma once

#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/function_ref.h"
#include "tost/base/path.h"

namespace tost {

// Calls body(begin, end) for disjoint ranges that cover [0, tasks), in any order and on any
// threads, and returns after all calls.
using ParallelFor =
    function_ref<void(int64_t tasks, function_ref<void(int64_t begin, int64_t end)> body)>;

// Runs all tasks on the calling thread.
inline constexpr auto serial_for = [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
  if (tasks > 0) body(0, tasks);
};

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
