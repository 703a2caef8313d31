#include "tost/nn/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace tost {
namespace {

using torch::Tensor;

TEST(AddScores, CountsByHand) {
  ClassScores scores(7);
  Tensor logits = torch::zeros({3, 7});
  logits[0] = torch::tensor({7.f, 6.f, 5.f, 4.f, 3.f, 2.f, 1.f});
  logits[1] = logits[2] = logits[0];
  add_scores(scores, logits.slice(0, 0, 2),
             torch::tensor({int64_t{0}, int64_t{4}}));  // first, and fifth of the ranking
  add_scores(scores, logits.slice(0, 2, 3), torch::tensor({int64_t{5}}));  // sixth
  EXPECT_EQ(scores.count, 3);
  EXPECT_DOUBLE_EQ(scores.top1(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores.top5(), 2.0 / 3);
  EXPECT_EQ(scores.confusion[4 * 7], 1);
  EXPECT_EQ(scores.confusion[5 * 7], 1);
  EXPECT_EQ(std::accumulate(scores.confusion.begin(), scores.confusion.end(), int64_t{0}), 3);
}

TEST(AddScores, LossOfUniformLogitsIsLogK) {
  ClassScores scores(3);
  add_scores(scores, torch::full({4, 3}, 2.5),
             torch::tensor({int64_t{0}, int64_t{1}, int64_t{2}, int64_t{2}}));
  EXPECT_NEAR(scores.loss(), std::log(3.0), 1e-12);
  EXPECT_DOUBLE_EQ(scores.top5(), 1) << "with three classes every answer is among the first five";
}

// NaN ranks first, as in rank_classes(); equal logits rank in the order of labels.
TEST(AddScores, RanksNanFirstAndEqualOnesByLabel) {
  ClassScores scores(3);
  const Tensor logits =
      torch::tensor({{1.f, std::numeric_limits<float>::quiet_NaN(), 2.f}, {4.f, 4.f, -1.f}});
  add_scores(scores, logits, torch::tensor({int64_t{1}, int64_t{1}}));
  EXPECT_EQ(scores.first, 1);
  EXPECT_EQ(scores.confusion[1 * 3 + 1], 1);
  EXPECT_EQ(scores.confusion[1 * 3 + 0], 1);
  EXPECT_TRUE(std::isnan(scores.loss()));
}

TEST(AddScores, LossStaysFiniteFarFromTheLabel) {
  ClassScores scores(2);
  add_scores(scores, torch::tensor({{2000.f, -1000.f}}), torch::tensor({int64_t{1}}));
  EXPECT_NEAR(scores.loss(), 3000, 1e-9);
}

TEST(ClassificationLoss, OneHotTargetsEqualLabels) {
  const Tensor logits = torch::tensor({{1.f, 2.f, -1.f}, {0.5f, 0.f, 3.f}});
  const Tensor labels = torch::tensor({int64_t{1}, int64_t{0}});
  const Tensor hard = classification_loss(logits, labels);
  EXPECT_NEAR(classification_loss(logits, labels, torch::one_hot(labels, 3).to(torch::kFloat))
                  .item<double>(),
              hard.item<double>(), 1e-6);
  // -log softmax by hand
  const double first = -(2 - std::log(std::exp(1.0) + std::exp(2.0) + std::exp(-1.0)));
  const double second = -(0.5 - std::log(std::exp(0.5) + 1 + std::exp(3.0)));
  EXPECT_NEAR(hard.item<double>(), (first + second) / 2, 1e-6);
  EXPECT_EQ(classification_loss(logits.to(torch::kBFloat16), labels).scalar_type(), torch::kFloat);
}

TEST(CountCorrect, FollowsTheLargerPartOfAMixedTarget) {
  const Tensor logits = torch::tensor({{1.f, 2.f}, {2.f, 1.f}});
  const Tensor labels = torch::tensor({int64_t{0}, int64_t{0}});
  EXPECT_EQ(count_correct(logits, labels).item<int64_t>(), 1);
  EXPECT_EQ(
      count_correct(logits, labels, torch::tensor({{0.3f, 0.7f}, {0.8f, 0.2f}})).item<int64_t>(),
      2);
}

}  // namespace
}  // namespace tost
