// Exponents and crossovers from costs measured at growing lengths.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tost {

struct CostPoint {
  int64_t tokens = 0;
  double cost = 0;  // time or memory, above 0
};

struct PowerFit {
  double exponent = 0, factor = 0;  // cost = factor * tokens^exponent
  int64_t points = 0;
};

// Least squares on logarithms over the points whose tokens are in [from, to]; points without a cost
// above 0 are left out. None with fewer than two lengths.
std::optional<PowerFit> fit_power(const std::vector<CostPoint>& points, int64_t from, int64_t to);

// Cost at `tokens`, continued from the last two points (in rising order, not empty) with an
// exponent of at least 1 and at most 3, 1 where there is one point.
double predict_cost(const std::vector<CostPoint>& points, int64_t tokens);

struct Crossover {
  double tokens = 0;
  bool measured = true;  // false: the first is cheaper at every common length from tokens on
};

// From where on `first` costs less than `second` at every longer length that both have, between two
// lengths by straight lines on logarithms. Both in rising order. None if it does not at the
// longest.
std::optional<Crossover> find_crossover(const std::vector<CostPoint>& first,
                                        const std::vector<CostPoint>& second);

// second / first at `tokens`; none unless both have it.
std::optional<double> cost_ratio(const std::vector<CostPoint>& first,
                                 const std::vector<CostPoint>& second, int64_t tokens);

}  // namespace tost
