#include "tost/study/scaling_fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tost {
namespace {

std::vector<CostPoint> power(double factor, double exponent, int64_t first = 128,
                             int64_t last = 65'536) {
  std::vector<CostPoint> points;
  for (int64_t n = first; n <= last; n *= 2) {
    points.push_back({n, factor * std::pow(double(n), exponent)});
  }
  return points;
}

TEST(ScalingFit, FindsExponentAndFactorOfPowers) {
  for (const double exponent : {0.0, 1.0, 2.0}) {
    const auto fit = fit_power(power(3e-5, exponent), 4096, 1 << 20);
    ASSERT_TRUE(fit.has_value());
    EXPECT_NEAR(fit->exponent, exponent, 1e-9);
    EXPECT_NEAR(fit->factor / 3e-5, 1, 1e-8);
    EXPECT_EQ(fit->points, 5);
  }
}

// By hand: through (log 1, log 1), (log 10, log 100), (log 100, log 100) the slope is 1.
TEST(ScalingFit, IsLeastSquaresOnLogarithms) {
  const auto fit = fit_power({{1, 1}, {10, 100}, {100, 100}}, 1, 100);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent, 1, 1e-12);
  EXPECT_NEAR(std::log10(fit->factor), 1.0 / 3, 1e-12);
}

TEST(ScalingFit, LooksAtItsRangeAlone) {
  auto points = power(1, 1);
  points[0].cost = 1e9;  // at 128
  const auto fit = fit_power(points, 256, 65'536);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent, 1, 1e-9);
  EXPECT_FALSE(fit_power(points, 60'000, 1 << 20).has_value());
  EXPECT_FALSE(fit_power({{8, 1}, {8, 2}}, 1, 100).has_value());
  EXPECT_FALSE(fit_power({{8, 1}, {16, 0}}, 1, 100).has_value());
}

TEST(ScalingFit, PredictsFromTheLastTwoPoints) {
  EXPECT_NEAR(predict_cost({{100, 5}}, 300), 15, 1e-12);
  EXPECT_NEAR(predict_cost({{1, 77}, {100, 5}, {200, 20}}, 400), 80, 1e-9);
  EXPECT_NEAR(predict_cost({{100, 5}, {200, 4}}, 400), 8, 1e-9);      // no less than linear
  EXPECT_NEAR(predict_cost({{100, 1}, {200, 1e6}}, 400), 8e6, 1e-3);  // no more than cubic
}

TEST(ScalingFit, FindsWhereTheFirstGetsAndStaysCheaper) {
  // 100 n against n²: equal at 100, between the lengths 64 and 128.
  const auto found = find_crossover(power(100, 1, 2), power(1, 2, 2));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->measured);
  EXPECT_NEAR(found->tokens, 100, 1e-6);
}

TEST(ScalingFit, OnlyTheLastCrossingCounts) {
  const std::vector<CostPoint> first{{1, 1}, {10, 10}, {100, 10}, {1000, 10}, {10'000, 10}};
  const std::vector<CostPoint> second{{1, 2}, {10, 5}, {100, 20}, {1000, 5}, {10'000, 20}};
  const auto found = find_crossover(first, second);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->tokens, std::sqrt(1e7), 1);  // gaps of -log 2 and log 2
}

TEST(ScalingFit, SaysWhereThereIsNoCrossing) {
  const auto always = find_crossover(power(1, 1), power(2, 1));
  ASSERT_TRUE(always.has_value());
  EXPECT_FALSE(always->measured);
  EXPECT_NEAR(always->tokens, 128, 1e-9);
  EXPECT_FALSE(find_crossover(power(2, 1), power(1, 1)).has_value());
  EXPECT_FALSE(find_crossover(power(1, 1, 2, 8), power(1, 1, 16, 64)).has_value());
}

TEST(ScalingFit, RatiosNeedTheLengthItself) {
  EXPECT_NEAR(cost_ratio(power(1, 1), power(3, 1), 1024).value(), 3, 1e-12);
  EXPECT_FALSE(cost_ratio(power(1, 1), power(3, 1), 1000).has_value());
}

}  // namespace
}  // namespace tost
