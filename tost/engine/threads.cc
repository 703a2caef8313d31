#include "tost/engine/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <exception>

namespace tost {
namespace {

std::atomic<int> chosen{0};
std::atomic<int (*)()> counter{nullptr};

}  // namespace

void set_engine_threads(int count) {
  chosen = count;
}

void count_engine_threads_by(int (*count)()) {
  counter = count;
}

#ifdef _OPENMP

int engine_threads() {
  if (omp_in_parallel()) return 1;
  if (chosen > 0) return chosen;
  return counter != nullptr ? counter.load()() : omp_get_max_threads();
}

void on_all_threads(int threads, function_ref<void(int, int)> body) {
#pragma omp parallel num_threads(threads) if (threads > 1)
  body(omp_get_thread_num(), omp_get_num_threads());
}

void wait_for_all() {
#pragma omp barrier
}

int thread_number() {
  return omp_get_thread_num();
}

#else

int engine_threads() {
  return 1;
}

void on_all_threads(int, function_ref<void(int, int)> body) {
  body(0, 1);
}

void wait_for_all() {}

int thread_number() {
  return 0;
}

#endif

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
