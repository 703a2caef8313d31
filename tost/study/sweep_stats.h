// Means and spreads over seeds.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

namespace tost {

struct MeanSpread {
  int64_t n = 0;
  double mean = std::nan("");    // of nothing: NaN
  double spread = std::nan("");  // sample standard deviation (divisor n - 1); NaN below n = 2
};

MeanSpread mean_spread(const std::vector<double>& values);

// Of value - base over the seeds that both have.
MeanSpread paired_difference(const std::map<int64_t, double>& values,
                             const std::map<int64_t, double>& base);

}  // namespace tost
