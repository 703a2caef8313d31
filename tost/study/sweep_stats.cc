#include "tost/study/sweep_stats.h"

namespace tost {

MeanSpread mean_spread(const std::vector<double>& values) {
  MeanSpread result;
  result.n = static_cast<int64_t>(values.size());
  if (values.empty()) return result;
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  result.mean = sum / double(result.n);
  if (result.n < 2) return result;
  for (double value : values) squares += (value - result.mean) * (value - result.mean);
  result.spread = std::sqrt(squares / double(result.n - 1));
  return result;
}

MeanSpread paired_difference(const std::map<int64_t, double>& values,
                             const std::map<int64_t, double>& base) {
  std::vector<double> differences;
  for (const auto& [seed, value] : values) {
    const auto other = base.find(seed);
    if (other != base.end()) differences.push_back(value - other->second);
  }
  return mean_spread(differences);
}

}  // namespace tost
