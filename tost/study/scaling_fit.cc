#include "tost/study/scaling_fit.h"

#include <algorithm>
#include <cmath>

namespace tost {
namespace {

struct LogPair {
  double tokens = 0;             // logarithm
  double first = 0, second = 0;  // logarithms of the costs
  double gap() const { return second - first; }
};

std::vector<LogPair> common_lengths(const std::vector<CostPoint>& first,
                                    const std::vector<CostPoint>& second) {
  std::vector<LogPair> pairs;
  for (const auto& a : first) {
    for (const auto& b : second) {
      if (a.tokens != b.tokens || !(a.cost > 0) || !(b.cost > 0)) continue;
      pairs.push_back({std::log(double(a.tokens)), std::log(a.cost), std::log(b.cost)});
    }
  }
  return pairs;
}

}  // namespace

std::optional<PowerFit> fit_power(const std::vector<CostPoint>& points, int64_t from, int64_t to) {
  double count = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const auto& p : points) {
    if (p.tokens < from || p.tokens > to || !(p.cost > 0)) continue;
    const double x = std::log(double(p.tokens)), y = std::log(p.cost);
    count += 1, sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y;
  }
  const double spread = count * sum_xx - sum_x * sum_x;
  if (count < 2 || spread < 1e-9) return {};
  PowerFit fit;
  fit.exponent = (count * sum_xy - sum_x * sum_y) / spread;
  fit.factor = std::exp((sum_y - fit.exponent * sum_x) / count);
  fit.points = int64_t(count);
  return fit;
}

double predict_cost(const std::vector<CostPoint>& points, int64_t tokens) {
  const auto& last = points.back();
  double exponent = 1;
  if (points.size() > 1) {
    const auto& before = points[points.size() - 2];
    exponent = std::clamp(
        std::log(last.cost / before.cost) / std::log(double(last.tokens) / double(before.tokens)),
        1.0, 3.0);
  }
  return last.cost * std::pow(double(tokens) / double(last.tokens), exponent);
}

std::optional<Crossover> find_crossover(const std::vector<CostPoint>& first,
                                        const std::vector<CostPoint>& second) {
  const auto pairs = common_lengths(first, second);
  if (pairs.empty() || pairs.back().gap() <= 0) return {};
  size_t begin = pairs.size() - 1;
  while (begin > 0 && pairs[begin - 1].gap() > 0) --begin;
  if (begin == 0) return Crossover{std::exp(pairs[0].tokens), false};
  const auto &a = pairs[begin - 1], &b = pairs[begin];
  const double share = a.gap() / (a.gap() - b.gap());
  return Crossover{std::exp(a.tokens + share * (b.tokens - a.tokens)), true};
}

std::optional<double> cost_ratio(const std::vector<CostPoint>& first,
                                 const std::vector<CostPoint>& second, int64_t tokens) {
  for (const auto& a : first) {
    for (const auto& b : second) {
      if (a.tokens == tokens && b.tokens == tokens && a.cost > 0) return b.cost / a.cost;
    }
  }
  return {};
}

}  // namespace tost
