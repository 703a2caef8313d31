#include "tost/nn/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tost {
namespace {

using torch::Tensor;

TEST(ClassificationMeter, CountsByHand) {
  ClassificationMeter meter(7);
  Tensor logits = torch::zeros({3, 7});
  logits[0] = torch::tensor({7.f, 6.f, 5.f, 4.f, 3.f, 2.f, 1.f});
  logits[1] = logits[2] = logits[0];
  meter.add(logits.slice(0, 0, 2),
            torch::tensor({int64_t{0}, int64_t{4}}));             // first, and fifth of the ranking
  meter.add(logits.slice(0, 2, 3), torch::tensor({int64_t{5}}));  // sixth
  EXPECT_EQ(meter.images(), 3);
  EXPECT_DOUBLE_EQ(meter.top1(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(meter.top5(), 2.0 / 3);
  EXPECT_EQ(meter.confusion()[4][0].item<int64_t>(), 1);
  EXPECT_EQ(meter.confusion()[5][0].item<int64_t>(), 1);
  EXPECT_EQ(meter.confusion().sum().item<int64_t>(), 3);
}

TEST(ClassificationMeter, LossOfUniformLogitsIsLogK) {
  ClassificationMeter meter(3);
  meter.add(torch::full({4, 3}, 2.5),
            torch::tensor({int64_t{0}, int64_t{1}, int64_t{2}, int64_t{2}}));
  EXPECT_NEAR(meter.loss(), std::log(3.0), 1e-12);
  EXPECT_DOUBLE_EQ(meter.top5(), 1) << "with three classes every answer is among the first five";
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
