#include "tost/explain/measures.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tost {
namespace {

TEST(Measures, IntersectionOverUnion) {
  EXPECT_DOUBLE_EQ(intersection_over_union({1, 1, 0, 0}, {0, 1, 1, 0}), 1.0 / 3);
  EXPECT_DOUBLE_EQ(intersection_over_union({1, 0}, {0, 1}), 0);
  EXPECT_DOUBLE_EQ(intersection_over_union({1, 0}, {1, 0}), 1);
  EXPECT_DOUBLE_EQ(intersection_over_union({0, 0}, {0, 0}), 1);
}

TEST(Measures, ChanceIsTheMeanOverAllMasksOfThatSize) {
  // Two of four tokens against two: 0, 1 or 2 in common in 1, 4 and 1 of 6 ways.
  EXPECT_NEAR(chance_iou(4, 2, 2), (4.0 / 3 + 1) / 6, 1e-12);
  EXPECT_NEAR(chance_iou(10, 10, 3), 0.3, 1e-12);  // every token
  EXPECT_DOUBLE_EQ(chance_iou(10, 0, 3), 0);
  EXPECT_DOUBLE_EQ(chance_iou(10, 0, 0), 1);
  double drawn = 0;
  int count = 0;
  const TokenMask object{1, 1, 1, 0, 0, 0, 0};
  for (int bits = 0; bits < 128; ++bits) {
    TokenMask mask;
    for (int i = 0; i < 7; ++i) mask.push_back(bits >> i & 1);
    if (area_of(mask) != 4) continue;
    drawn += intersection_over_union(mask, object);
    ++count;
  }
  EXPECT_NEAR(chance_iou(7, 4, 3), drawn / count, 1e-12);
}

TEST(Measures, AreaUnderTheCurveAndPrecision) {
  const std::vector<double> scores{0.9, 0.8, 0.3, 0.1};
  EXPECT_DOUBLE_EQ(roc_auc(scores, {1, 0, 1, 0}), 0.75);
  EXPECT_DOUBLE_EQ(average_precision(scores, {1, 0, 1, 0}), 0.5 * 1 + 0.5 * 2 / 3);
  EXPECT_DOUBLE_EQ(roc_auc(scores, {1, 1, 0, 0}), 1);
  EXPECT_DOUBLE_EQ(roc_auc(scores, {0, 0, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(roc_auc({1, 1, 1, 1}, {1, 0, 1, 0}), 0.5);
  EXPECT_DOUBLE_EQ(average_precision({1, 1, 1, 1}, {1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(roc_auc({NAN, 1}, {1, 0}), 0);
  EXPECT_TRUE(std::isnan(roc_auc(scores, {0, 0, 0, 0})));
  EXPECT_TRUE(std::isnan(roc_auc(scores, {1, 1, 1, 1})));
  EXPECT_TRUE(std::isnan(average_precision(scores, {0, 0, 0, 0})));
}

TEST(Measures, EntropyOverHeads) {
  const auto pi = torch::tensor({{0.5, 1.0, 0.9}, {0.5, 0.0, 0.1}}, torch::kDouble);
  const auto entropy = membership_entropy(pi);
  EXPECT_NEAR(entropy[0].item<double>(), 1, 1e-12);
  EXPECT_NEAR(entropy[1].item<double>(), 0, 1e-12);
  EXPECT_NEAR(entropy[2].item<double>(), -(0.9 * std::log(0.9) + 0.1 * std::log(0.1)) / std::log(2),
              1e-12);
  EXPECT_EQ(membership_entropy(torch::ones({2, 1, 3})).abs().sum().item<double>(), 0);
}

TEST(Measures, SpreadLeavesOutWhatIsNotFinite) {
  const Spread spread = spread_of(std::vector<double>{1, NAN, 3, INFINITY});
  EXPECT_DOUBLE_EQ(spread.mean, 2);
  EXPECT_DOUBLE_EQ(spread.deviation, 1);
  EXPECT_EQ(spread.count, 2);
  EXPECT_TRUE(std::isnan(spread_of(std::vector<double>{NAN}).mean));
}

}  // namespace
}  // namespace tost
