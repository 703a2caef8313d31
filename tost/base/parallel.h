// Passes the caller's threads to code without torch; a caller with torch passes at::parallel_for.
// One setting thus controls all threads, and nested regions do not oversubscribe the cores.
#pragma once

#include <cstdint>

#include "tost/base/function_ref.h"

namespace tost {

// Calls body(begin, end) for disjoint ranges that cover [0, tasks), in any order and on any
// threads, and returns after all calls.
using ParallelFor =
    function_ref<void(int64_t tasks, function_ref<void(int64_t begin, int64_t end)> body)>;

// Runs all tasks on the calling thread.
inline constexpr auto serial_for = [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
  if (tasks > 0) body(0, tasks);
};

}  // namespace tost
