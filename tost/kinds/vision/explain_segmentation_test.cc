#include <gtest/gtest.h>

#include <cmath>

#include "tost/kinds/vision/explain_report.h"

namespace tost {
namespace {

// Pictures of eight tokens whose object is at a place of its own in each.
std::vector<TokenMask> objects(int count) {
  std::vector<TokenMask> truth;
  for (int i = 0; i < count; ++i) {
    TokenMask mask(8);
    for (int k = 0; k < 3; ++k) mask[size_t((i + k) % 8)] = 1;
    truth.push_back(mask);
  }
  return truth;
}

// Head `head` of three has `inside` on the object and `outside` elsewhere.
SegmentationSample sample(const TokenMask& mask, int64_t head, double inside, double outside) {
  SegmentationSample made;
  made.pi = torch::zeros({3, 8}, torch::kDouble);
  made.z = torch::zeros({8, 2}, torch::kDouble);
  for (int64_t token = 0; token < 8; ++token) {
    const double value = mask[size_t(token)] ? inside : outside;
    for (int64_t other = 0; other < 3; ++other) {
      made.pi[other][token] = other == head ? value : (1 - value) * (other == 0 ? 0.6 : 0.4);
    }
    made.z[token][0] = mask[size_t(token)] ? 5 : -5;
  }
  made.w = torch::zeros({8, 2}, torch::kDouble);
  return made;
}

SegmentationLayer scores(double inside, double outside) {
  const auto truth = objects(8);
  std::vector<SegmentationSample> samples;
  for (const TokenMask& mask : truth) samples.push_back(sample(mask, 1, inside, outside));
  return score_layer(samples, truth, 2, 0);
}

TEST(Segmentation, AHeadOnTheObjectIsFound) {
  const SegmentationLayer layer = scores(0.9, 0.1);
  EXPECT_EQ(layer.hard.group, 2);
  EXPECT_FALSE(layer.hard.complement);
  EXPECT_DOUBLE_EQ(layer.hard.iou, 1);
  EXPECT_DOUBLE_EQ(layer.hard.chosen, 1);
  EXPECT_EQ(layer.hard.ious, std::vector<double>(4, 1));
  EXPECT_DOUBLE_EQ(layer.soft.iou, 1);
  EXPECT_NEAR(layer.hard.chance, chance_iou(8, 3, 3), 1e-12);
  EXPECT_EQ(layer.auc_head, 1);  // the first of the heads that separate perfectly, here negated
  EXPECT_DOUBLE_EQ(layer.auc, 1);
  EXPECT_DOUBLE_EQ(layer.average_precision, 1);
  EXPECT_DOUBLE_EQ(layer.heads[1].auc, 1);
  EXPECT_DOUBLE_EQ(layer.heads[0].auc, 0);
}

TEST(Segmentation, AHeadOnTheBackgroundCountsByItsComplement) {
  const SegmentationLayer layer = scores(0.05, 0.9);
  EXPECT_DOUBLE_EQ(layer.hard.iou, 1);
  EXPECT_TRUE(layer.hard.complement || layer.hard.group == 1);
}

TEST(Segmentation, KMeansSeesTheSameTokens) {
  const SegmentationLayer layer = scores(0.9, 0.1);
  EXPECT_DOUBLE_EQ(layer.k_means_z.iou, 1);          // the object is a cluster of the outputs
  EXPECT_NEAR(layer.k_means_w.iou, 3.0 / 8, 1e-12);  // all projected tokens are equal: every token
}

TEST(Segmentation, EqualMembershipsScoreAsChance) {
  const SegmentationLayer layer = scores(1.0 / 3, 1.0 / 3);
  EXPECT_DOUBLE_EQ(layer.auc, 0.5);
  EXPECT_NEAR(layer.hard.iou, layer.hard.chance, 1e-12);
}

TEST(Segmentation, TheAverageObjectLooksAtNoPicture) {
  const std::vector<TokenMask> truth{{1, 1, 0, 0}, {1, 0, 1, 0}, {1, 1, 0, 0}, {1, 1, 0, 0}};
  const MaskScore average = score_average_object(truth);
  EXPECT_NEAR(average.iou, (1.0 / 3 + 1) / 2, 1e-12);
  EXPECT_TRUE(std::isnan(score_average_object({{1, 0}}).iou));
}

TEST(Segmentation, TheLayerIsChosenWhereItIsNotScored) {
  const auto layer = [](double hard, double soft, double scored) {
    SegmentationLayer made;
    made.hard = {.group = 1, .chosen = hard, .iou = scored};
    made.soft = {.group = 2, .chosen = soft, .iou = scored};
    made.k_means_z = {.group = 1, .chosen = hard, .iou = scored};
    return made;
  };
  const std::vector<SegmentationLayer> layers{layer(0.2, 0.3, 0.9), layer(0.4, 0.5, 0.1)};
  const BestMask head = best_head(layers), k_means = best_k_means(layers);
  EXPECT_EQ(head.layer, 2);
  EXPECT_TRUE(head.second);
  EXPECT_EQ(head.score.group, 2);
  EXPECT_DOUBLE_EQ(head.score.iou, 0.1);
  EXPECT_EQ(k_means.layer, 2);
  EXPECT_TRUE(k_means.second);
  EXPECT_EQ(best_head({SegmentationLayer{}}).layer, 0);
}

TEST(Segmentation, DifferencesAreOfTheSamePictures) {
  const MaskScore first{.ious = {0.5, 0.9, 0.1}}, second{.ious = {0.4, 0.6, 0.1}};
  const Spread difference = paired_difference(first, second);
  EXPECT_NEAR(difference.mean, 0.4 / 3, 1e-12);
  // Variance 7/300 of the three, over three.
  EXPECT_NEAR(standard_error(difference), std::sqrt(7.0 / 900), 1e-12);
  EXPECT_TRUE(std::isnan(paired_difference(first, {}).mean));
  EXPECT_TRUE(std::isnan(standard_error(spread_of(std::vector<double>{1}))));
}

TEST(Segmentation, TooFewPicturesHaveNoScore) {
  const auto truth = objects(1);
  const SegmentationLayer layer = score_layer({sample(truth[0], 1, 0.9, 0.1)}, truth, 2, 0);
  EXPECT_EQ(layer.hard.group, 0);
  EXPECT_TRUE(std::isnan(layer.hard.iou));
}

}  // namespace
}  // namespace tost
