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

// One of the parts of a stage of work.
struct StagePart {
  int64_t index, count;
  int thread;
  bool first;  // that this thread does of the stage
};
// Does stages first to last - 1 one after the other: calls body(stage, part) for each of its
// parts(stage) parts, on whichever thread is free.
void do_stages(int threads, size_t first, size_t last, function_ref<int64_t(size_t)> parts,
               function_ref<void(size_t, const StagePart&)> body);
// The index of the calling thread in its region.
int thread_number();

}  // namespace tost
