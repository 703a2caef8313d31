// Times and their statistics.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace tost {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The median of `values`; the upper median if the number of values is even.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median and both quartiles, by linear interpolation between sorted values.
struct Quartiles {
  double low = 0, median = 0, high = 0;
};
Quartiles quartiles(std::vector<double> values);  // not empty

// A clock in milliseconds that first waits for the work that `synchronize` waits for.
using MsClock = std::function<double()>;
MsClock ms_clock(std::function<void()> synchronize = [] {});

struct Candidate {
  std::function<void()> run;
  std::function<void()> prepare = [] {};  // before each run, outside its time
};

// Milliseconds of each candidate's `repeat` runs. The candidates alternate: each runs once a round,
// and the first `warmup` rounds are not counted.
std::vector<std::vector<double>> time_rounds(int64_t warmup, int64_t repeat,
                                             const std::vector<Candidate>& candidates,
                                             const MsClock& now = ms_clock());

double best_ms(const std::function<void()>& run, const MsClock& now = ms_clock());  // of seven runs

// Milliseconds of one read of `bytes` >= 8 bytes on all threads: the best of several, because
// disturbances only add time.
double memory_read_ms(int64_t bytes);

}  // namespace tost
