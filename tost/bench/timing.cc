#include "tost/bench/timing.h"

namespace tost {

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

std::vector<double> time_calls(int64_t warmup, int64_t repeat, const std::function<void()>& prepare,
                               const std::function<void()>& run,
                               const std::function<double()>& now) {
  std::vector<double> times;
  for (int64_t i = -warmup; i < repeat; ++i) {
    prepare();
    const double start = now();
    run();
    if (i >= 0) times.push_back(now() - start);
  }
  return times;
}

}  // namespace tost
