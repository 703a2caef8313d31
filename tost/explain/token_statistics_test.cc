#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tost/explain/layer_sums.h"

namespace tost {
namespace {

TEST(TokenCorrelations, ByHand) {
  // Head 1: the second feature is minus twice the first. Head 2: orthogonal features.
  const auto w = torch::tensor({{{1.0, -2.0, 1.0, 1.0}, {3.0, -6.0, 1.0, -1.0}}}, torch::kDouble);
  const auto pi = torch::full({1, 2, 2}, 0.5, torch::kDouble);
  const HeadCorrelations found = head_correlations(w, pi);
  EXPECT_NEAR(found.off_diagonal[0][0].item<double>(), 1, 1e-12);
  EXPECT_NEAR(found.off_diagonal[0][1].item<double>(), 0, 1e-12);
  EXPECT_NEAR(found.absolute[0][1][1][1].item<double>(), 1, 1e-12);
  // Without its mean the third feature has no spread left, and correlates with nothing.
  EXPECT_NEAR(found.centered_off_diagonal[0][0].item<double>(), 1, 1e-12);
  EXPECT_EQ(found.centered_off_diagonal[0][1].item<double>(), 0);
  EXPECT_EQ(found.centered[0][1][0][0].item<double>(), 0);
  EXPECT_NEAR(found.chance[0][0].item<double>(), std::sqrt(2 / (std::numbers::pi * 2)), 1e-12);
}

TEST(TokenCorrelations, WeightsDecideWhichTokensCount) {
  const auto w = torch::tensor({{{1.0, 1.0}, {1.0, -1.0}}}, torch::kDouble);
  const auto pi = torch::tensor({{{0.75, 0.25}}}, torch::kDouble);
  EXPECT_NEAR(head_correlations(w, pi).off_diagonal[0][0].item<double>(), 0.5, 1e-12);
  const auto one = torch::tensor({{{1.0, 0.0}}}, torch::kDouble);
  EXPECT_NEAR(head_correlations(w, one).chance[0][0].item<double>(),
              std::sqrt(2 / std::numbers::pi), 1e-12);
}

TEST(TokenCorrelations, DeadFeaturesAndHeadsOfOneFeature) {
  const auto dead = head_correlations(torch::zeros({1, 3, 4}), torch::full({1, 2, 3}, 0.5));
  EXPECT_EQ(dead.absolute.abs().sum().item<double>(), 0);
  const auto narrow = head_correlations(torch::ones({1, 3, 2}), torch::full({1, 2, 3}, 0.5));
  EXPECT_TRUE(std::isnan(narrow.off_diagonal[0][0].item<double>()));
}

TEST(TokenNorms, OutliersByBothRules) {
  auto norms = torch::ones({1000});
  norms[0] = 50;
  norms[1] = 3.5;
  norms[2] = NAN;
  const NormStatistics s = norm_statistics(norms, torch::full({4}, 7.0));
  EXPECT_EQ(s.tokens, 999);
  EXPECT_DOUBLE_EQ(s.median, 1);
  EXPECT_DOUBLE_EQ(s.largest, 50);
  EXPECT_NEAR(s.beyond_medians, 2.0 / 999, 1e-12);
  EXPECT_NEAR(s.beyond_deviations, 1.0 / 999, 1e-12);
  EXPECT_DOUBLE_EQ(s.register_mean, 7);
  ASSERT_EQ(int64_t(s.histogram.size()), kNormBins);
  EXPECT_EQ(s.histogram[0], 997);
  EXPECT_EQ(s.histogram[2], 1);
  EXPECT_EQ(s.histogram.back(), 1);
}

TEST(TokenNorms, NothingToMeasure) {
  const NormStatistics none = norm_statistics(torch::zeros({0}), {});
  EXPECT_EQ(none.tokens, 0);
  EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.register_mean));
  EXPECT_TRUE(norm_statistics(torch::zeros({5}), {}).histogram.empty());
}

}  // namespace
}  // namespace tost
