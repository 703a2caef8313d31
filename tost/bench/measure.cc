#include "tost/bench/measure.h"

#include <atomic>

#include "tost/base/error.h"
#include "tost/engine/threads.h"

namespace tost {
namespace {

// Adds every word of a buffer once, in 32 independent sums, so that only memory limits the speed.
uint64_t sum_words(const uint64_t* words, int64_t begin, int64_t end) {
  uint64_t sums[32] = {};
  int64_t i = begin;
  for (; i + 32 <= end; i += 32) {
    for (int64_t j = 0; j < 32; ++j) sums[j] += words[i + j];
  }
  for (; i < end; ++i) sums[0] += words[i];
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const double place = part * double(values.size() - 1);
    const auto below = size_t(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - double(below)) * (values[above] - values[below]);
  };
  return {at(0.25), at(0.5), at(0.75)};
}

MsClock ms_clock(std::function<void()> synchronize) {
  return [synchronize = std::move(synchronize), start = Clock::now()] {
    synchronize();
    return ms_since(start);
  };
}

std::vector<std::vector<double>> time_rounds(int64_t warmup, int64_t repeat,
                                             const std::vector<Candidate>& candidates,
                                             const MsClock& now) {
  std::vector<std::vector<double>> times(candidates.size());
  for (int64_t round = -warmup; round < repeat; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].prepare();
      const double start = now();
      candidates[i].run();
      const double end = now();
      if (round >= 0) times[i].push_back(end - start);
    }
  }
  return times;
}

double best_ms(const std::function<void()>& run, const MsClock& now) {
  const auto times = time_rounds(0, 7, {{run}}, now)[0];
  return *std::min_element(times.begin(), times.end());
}

double memory_read_ms(int64_t bytes) {
  const std::vector<uint64_t> words(size_t(bytes / 8), 1);
  return best_ms([&] {
    std::atomic<uint64_t> total{0};
    parallel_tasks(int64_t(words.size()), [&](int64_t begin, int64_t end) {
      total += sum_words(words.data(), begin, end);
    });
    if (total != words.size()) fail_data("The read of memory went wrong.");
  });
}

}  // namespace tost
