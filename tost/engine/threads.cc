#include "tost/engine/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

namespace tost {
namespace {

std::atomic<int> chosen{0};
std::atomic<int (*)()> counter{nullptr};

#ifndef _OPENMP
constexpr auto omp_in_parallel = [] { return true; };
constexpr auto omp_get_max_threads = [] { return 1; };
constexpr auto omp_get_num_threads = omp_get_max_threads;
constexpr auto omp_get_thread_num = [] { return 0; };
#endif

// Calls body(thread, threads) on all threads at once.
void on_all_threads([[maybe_unused]] int threads, function_ref<void(int, int)> body) {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) if (threads > 1)
#endif
  body(omp_get_thread_num(), omp_get_num_threads());
}

// How long a thread looks before it sleeps. To wake it takes some 25 microseconds: under
// OMP_WAIT_POLICY=passive, barriers of OpenMP took a quarter of the time of a step in int8.
constexpr auto kAwake = std::chrono::microseconds(10);

// Where threads meet after each stage.
struct Meeting {
  std::atomic<int> arrived{0};
  std::mutex mutex;
  std::condition_variable complete;

  // Returns when all threads have called it as often as this one.
  void wait(int threads) {
    const int before = arrived++, all = (before / threads + 1) * threads;
    const auto end = std::chrono::steady_clock::now() + kAwake;
    while (arrived < all && std::chrono::steady_clock::now() < end) continue;
    if (before + 1 < all && arrived >= all) return;
    std::unique_lock lock(mutex);
    if (before + 1 == all) return complete.notify_all();
    complete.wait(lock, [&] { return arrived >= all; });
  }
};

}  // namespace

void set_engine_threads(int count) {
  chosen = count;
}

void count_engine_threads_by(int (*count)()) {
  counter = count;
}

int engine_threads() {
  if (omp_in_parallel()) return 1;
  if (chosen > 0) return chosen;
  return counter != nullptr ? counter.load()() : omp_get_max_threads();
}

int thread_number() {
  return omp_get_thread_num();
}

void do_stages(int threads, size_t first, size_t last, function_ref<int64_t(size_t)> parts,
               function_ref<void(size_t, const StagePart&)> body) {
  // How many parts of a thread's share were taken, in stages of even and of odd number.
  struct alignas(64) Taken {
    std::atomic<int64_t> of_stage[2];
  };
  std::vector<Taken> taken(static_cast<size_t>(threads));
  Meeting meeting;
  on_all_threads(threads, [&](int thread, int all) {
    for (size_t stage = first; stage < last; ++stage) {
      StagePart part{0, parts(stage), thread, true};
      // First its own share, front to back, so that memory is read in one stream; then the others'.
      for (int i = 0; i < all; ++i) {
        const int whose = (thread + i) % all;
        auto& next = taken[size_t(whose)].of_stage[stage % 2];
        const int64_t begin = part.count * whose / all, end = part.count * (whose + 1) / all;
        for (; (part.index = begin + next++) < end; part.first = false) body(stage, part);
      }
      taken[size_t(thread)].of_stage[(stage + 1) % 2] = 0;
      meeting.wait(all);
    }
  });
}

void parallel_tasks(int64_t tasks, function_ref<void(int64_t, int64_t)> body) {
  const auto threads = int(std::min<int64_t>(tasks, engine_threads()));
  if (threads <= 1) {
    if (tasks > 0) body(0, tasks);
    return;
  }
  std::exception_ptr failure;
  std::atomic_flag failed;
  on_all_threads(threads, [&](int thread, int all) {
    const int64_t begin = tasks * thread / all, end = tasks * (thread + 1) / all;
    try {
      if (begin < end) body(begin, end);
    } catch (...) {
      if (!failed.test_and_set()) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tost
