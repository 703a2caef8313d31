#include "tost/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace tost {
namespace {

TEST(Random, SameSeedSameNumbersOtherStreamOthers) {
  Random a(7, 1, 2), b(7, 1, 2), c(7, 1, 3), d(7, 2, 1);
  const uint64_t first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
  EXPECT_NE(first, d.next());
}

TEST(Random, BelowIsUniformAndInRange) {
  Random random(1);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts.at(static_cast<size_t>(random.below(7)));
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);  // over 5 standard deviations
  EXPECT_EQ(random.below(1), 0);
}

// Mean and variance of n draws against their theory, within 6 standard errors of the mean.
void expect_moments(const std::vector<double>& draws, double mean, double variance) {
  const double n = static_cast<double>(draws.size());
  const double m = std::accumulate(draws.begin(), draws.end(), 0.0) / n;
  double v = 0;
  for (double x : draws) v += (x - m) * (x - m) / n;
  EXPECT_NEAR(m, mean, 6 * std::sqrt(variance / n));
  EXPECT_NEAR(v, variance, 0.05 * variance + 1e-9);
}

TEST(Random, DistributionsHaveTheirMoments) {
  Random random(3);
  std::vector<double> uniform(40000), normal(40000), gamma(40000), beta(40000), small(40000);
  for (size_t i = 0; i < uniform.size(); ++i) {
    uniform[i] = random.uniform(2, 4);
    normal[i] = random.normal();
    gamma[i] = random.gamma(2.5);
    beta[i] = random.beta(0.8, 0.8);
    small[i] = random.gamma(0.3);
    EXPECT_GE(uniform[i], 2);
    EXPECT_LT(uniform[i], 4);
  }
  expect_moments(uniform, 3, 4.0 / 12);
  expect_moments(normal, 0, 1);
  expect_moments(gamma, 2.5, 2.5);
  expect_moments(beta, 0.5, 0.25 / 2.6);
  expect_moments(small, 0.3, 0.3);
}

TEST(Random, ShuffleKeepsEveryItem) {
  std::vector<int> items(100);
  std::iota(items.begin(), items.end(), 0);
  Random random(5);
  shuffle(items.data(), 100, random);
  std::vector<int> sorted = items;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
  EXPECT_FALSE(std::is_sorted(items.begin(), items.end()));
}

}  // namespace
}  // namespace tost
