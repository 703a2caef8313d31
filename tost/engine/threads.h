// The threads of an engine: those of OpenMP, which torch in the same program uses, too. Without
// OpenMP, as in a browser, there is one thread.
#pragma once

#include <cstdint>

#include "tost/base/function_ref.h"
#include "tost/base/parallel.h"

namespace tost {

// The number of threads that a region starts; 1 within a region.
int engine_threads();
// Sets the number of threads of regions; 0 means the number that the system reports.
void set_engine_threads(int count);
// Sets the function that returns the number of threads. Null ends that.
void count_engine_threads_by(int (*count)());

// A ParallelFor that distributes ranges of tasks over the threads.
void parallel_tasks(int64_t tasks, function_ref<void(int64_t begin, int64_t end)> body);
inline constexpr auto engine_parallel =
    [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) { parallel_tasks(tasks, body); };

// Calls body(thread, threads) on all threads at once; threads may wait for one another in `body`.
void on_all_threads(int threads, function_ref<void(int thread, int threads)> body);
void wait_for_all();
// The index of the calling thread in its region.
int thread_number();

}  // namespace tost
