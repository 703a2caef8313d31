#include "tost/nn/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/stand_in_gpu.h"
#include "tost/base/error.h"

namespace tost {
namespace {

using torch::Tensor;

struct Case {
  Tensor hidden, weight, targets;
};

Case make_case(int64_t rows, int64_t width, int64_t vocab, torch::Dtype type) {
  torch::manual_seed(3);
  Case c;
  c.hidden = torch::randn({rows, width}, type).requires_grad_();
  c.weight = torch::randn({vocab, width}, type).requires_grad_();
  c.targets = torch::randint(0, vocab, {rows}, torch::kLong);
  c.targets[rows / 2] = -1;
  return c;
}

std::vector<Tensor> with_gradients(const Tensor& loss, const Case& c) {
  auto result = torch::autograd::grad({loss * 3}, {c.hidden, c.weight});
  result.push_back(loss.detach());
  return result;
}

std::vector<Tensor> expected(const Case& c) {
  return with_gradients(torch::cross_entropy_loss(torch::matmul(c.hidden, c.weight.t()), c.targets,
                                                  {}, at::Reduction::Mean, -1),
                        c);
}

double distance(const Tensor& found, const Tensor& wanted) {
  const double scale = wanted.abs().max().item<double>();
  return (found.to(torch::kDouble) - wanted.to(torch::kDouble)).abs().max().item<double>() / scale;
}

// One chunk, several with a rest, one row a chunk.
TEST(HeadCrossEntropy, EqualsTheDefinitionInAnyNumberOfChunks) {
  const Case c = make_case(11, 6, 29, torch::kDouble);
  const auto wanted = expected(c);
  for (const int64_t bytes : {int64_t{1} << 20, int64_t{29 * 8 * 4}, int64_t{1}}) {
    const auto found = with_gradients(head_cross_entropy(c.hidden, c.weight, c.targets, bytes), c);
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_LT(distance(found[i], wanted[i]), 1e-14);
  }
}

TEST(HeadCrossEntropy, ManyPiecesOfLargeLogits) {
  Case c = make_case(70, 8, 9000, torch::kFloat);
  {
    const torch::NoGradGuard no_grad;
    c.hidden[0].mul_(1e3);
  }
  const auto wanted = expected(c);
  const auto found = with_gradients(head_cross_entropy(c.hidden, c.weight, c.targets), c);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_LT(distance(found[i], wanted[i]), 1e-5);
}

// The limit is torch's own error in the same precision.
TEST(HeadCrossEntropy, UnderAutocastErrsNoMoreThanTorch) {
  const Case c = make_case(64, 32, 500, torch::kFloat);
  const auto exact = expected(c);
  std::vector<Tensor> torchs, fused, chunked;
  {
    const testing::Bfloat16Autocast autocast;
    torchs = expected(c);
    fused = with_gradients(head_cross_entropy(c.hidden, c.weight, c.targets), c);
    chunked = with_gradients(head_cross_entropy(c.hidden, c.weight, c.targets, 500 * 2 * 20), c);
  }
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(fused[i].scalar_type(), torch::kFloat);
    const double allowed = 1.5 * distance(torchs[i], exact[i]) + 1e-4;
    EXPECT_LT(distance(fused[i], exact[i]), allowed) << i;
    EXPECT_LT(distance(chunked[i], exact[i]), allowed) << i;
  }
}

TEST(HeadCrossEntropy, WithoutGradientsGivesTheSameLoss) {
  const Case c = make_case(9, 4, 13, torch::kFloat);
  const Tensor loss = head_cross_entropy(c.hidden, c.weight, c.targets);
  EXPECT_TRUE(loss.requires_grad());
  const torch::NoGradGuard no_grad;
  const Tensor quiet = head_cross_entropy(c.hidden, c.weight, c.targets);
  EXPECT_FALSE(quiet.requires_grad());
  EXPECT_EQ(quiet.item<float>(), loss.item<float>());
}

TEST(HeadCrossEntropy, HandsItsGradientOverWithoutACopyOnce) {
  const Case c = make_case(9, 4, 13, torch::kFloat);
  const Tensor loss = head_cross_entropy(c.hidden, c.weight, c.targets);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(c.weight.grad().defined());
  EXPECT_THROW(loss.backward(), Error);
}

TEST(HeadCrossEntropy, RefusesToBeDifferentiatedTwice) {
  const Case c = make_case(9, 4, 13, torch::kFloat);
  const Tensor loss = head_cross_entropy(c.hidden, c.weight, c.targets);
  const auto gradients = [&](bool create_graph) {
    return torch::autograd::grad({loss}, {c.hidden, c.weight}, {}, true, create_graph);
  };
  EXPECT_THROW(gradients(true), Error);
  EXPECT_EQ(gradients(false)[1].sizes(), c.weight.sizes());
}

TEST(HeadCrossEntropy, NoRowsGiveZeroGradients) {
  const Tensor hidden = torch::randn({0, 4}).requires_grad_();
  const Tensor weight = torch::randn({13, 4}).requires_grad_();
  const Tensor loss = head_cross_entropy(hidden, weight, torch::empty({0}, torch::kLong));
  EXPECT_TRUE(std::isnan(loss.item<float>()));
  loss.backward();
  EXPECT_EQ(hidden.grad().sizes(), hidden.sizes());
  EXPECT_TRUE(torch::equal(weight.grad(), torch::zeros({13, 4})));
}

TEST(HeadCrossEntropy, RefusesWhatDoesNotFit) {
  Case c = make_case(4, 3, 5, torch::kFloat);
  EXPECT_THROW(head_cross_entropy(c.hidden, c.weight.t(), c.targets), Error);
  c.targets[1] = 5;
  EXPECT_THROW(head_cross_entropy(c.hidden, c.weight, c.targets), Error);
  c.targets[1] = -2;
  EXPECT_THROW(head_cross_entropy(c.hidden, c.weight, c.targets), Error);
  c.targets.fill_(-1);
  EXPECT_TRUE(std::isnan(head_cross_entropy(c.hidden, c.weight, c.targets).item<float>()));
}

}  // namespace
}  // namespace tost
