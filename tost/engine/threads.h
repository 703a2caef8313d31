// The threads of an engine. They are OpenMP's where the compiler has it, so that they are those of
// torch where torch is in the same program; elsewhere, as in a browser, there is one.
#pragma once

#include <cstdint>

#include "tost/base/function_ref.h"
#include "tost/base/parallel.h"

namespace tost {

// How many a region starts; 1 within a region.
int engine_threads();
// From now on in all threads of the program; 0: as many as the system says.
void set_engine_threads(int count);
// Lets somebody else count them. Null ends that.
void count_engine_threads_by(int (*count)());

// As ParallelFor: ranges of tasks over the threads.
void parallel_tasks(int64_t tasks, function_ref<void(int64_t begin, int64_t end)> body);
inline constexpr auto engine_parallel =
    [](int64_t tasks, function_ref<void(int64_t, int64_t)> body) { parallel_tasks(tasks, body); };

// body(thread, threads) on every thread at once; they may wait for one another in it.
void on_all_threads(int threads, function_ref<void(int thread, int threads)> body);
void wait_for_all();
// The number of the calling thread in its region.
int thread_number();

}  // namespace tost
