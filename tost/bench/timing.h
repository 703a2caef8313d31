// Wall-clock times and what is reported of them.
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

// The upper one of an even number; `values` is not empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Median and the quarters around it, by straight lines between the sorted values.
struct Quartiles {
  double low = 0, median = 0, high = 0;
};
Quartiles quartiles(std::vector<double> values);  // not empty

// Milliseconds of each of `repeat` calls of `run`, after `warmup` calls that are not counted.
// `prepare` comes before each call, outside the time. `now` tells milliseconds.
std::vector<double> time_calls(int64_t warmup, int64_t repeat, const std::function<void()>& prepare,
                               const std::function<void()>& run,
                               const std::function<double()>& now);

}  // namespace tost
