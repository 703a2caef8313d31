#include "tost/train/adamw.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include "tests/testing/errors.h"

namespace tost {
namespace {

using torch::Tensor;

struct Problem {
  Tensor w, b, unused, x;
  explicit Problem(uint64_t seed) {
    torch::manual_seed(seed);
    w = torch::randn({5, 7}).requires_grad_();
    b = torch::randn({7}).requires_grad_();
    unused = torch::randn({3}).requires_grad_();
    x = torch::randn({11, 5});
  }
  Tensor loss() const { return (x.matmul(w) + b).tanh().square().mean(); }
  std::vector<ParamGroup> groups() const {
    return {{{"w"}, {w}, 0.3}, {{"b", "unused"}, {b, unused}, 0.0}};
  }
};

// Copies of weights are renewed by the version of the weight.
TEST(AdamW, SaysThatItWroteTheWeights) {
  const Problem problem(1);
  AdamW optimizer(problem.groups(), {});
  problem.loss().backward();
  const auto before = problem.w._version();
  optimizer.step(0.1);
  EXPECT_GT(problem.w._version(), before);
}

TEST(AdamW, EqualsTorch) {
  const Problem optimized(1), expected(1);
  AdamW optimizer(optimized.groups(), {.beta1 = 0.8, .beta2 = 0.97, .eps = 1e-7});
  const auto with_decay = [](double decay) {
    auto options = torch::optim::AdamWOptions(1).betas({0.8, 0.97}).eps(1e-7);
    return std::make_unique<torch::optim::AdamWOptions>(options.weight_decay(decay));
  };
  torch::optim::AdamW reference(
      {{{expected.w}, with_decay(0.3)}, {{expected.b, expected.unused}, with_decay(0.0)}},
      *with_decay(0.0));
  for (int step = 0; step < 20; ++step) {
    const double lr = 0.05 / (1 + step);
    for (auto& group : reference.param_groups()) {
      static_cast<torch::optim::AdamWOptions&>(group.options()).lr(lr);
    }
    optimizer.zero_grad();
    reference.zero_grad();
    optimized.loss().backward();
    expected.loss().backward();
    optimizer.step(lr);
    reference.step();
  }
  EXPECT_TRUE(torch::allclose(optimized.w, expected.w, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(optimized.b, expected.b, 1e-5, 1e-6));
  EXPECT_TRUE(torch::equal(optimized.unused, expected.unused)) << "no gradient, so no decay either";
  EXPECT_FALSE(torch::allclose(optimized.w, Problem(1).w, 1e-2, 1e-2))
      << "the steps must have moved it";
}

TEST(AdamW, StateRoundTripContinuesExactly) {
  const Problem a(2), b(2);
  AdamW first(a.groups(), {}), second(b.groups(), {});
  const auto step = [](const Problem& p, AdamW& optimizer) {
    optimizer.zero_grad();
    p.loss().backward();
    optimizer.step(0.01);
  };
  for (int i = 0; i < 3; ++i) step(a, first);
  {
    const torch::NoGradGuard no_grad;
    b.w.copy_(a.w);
    b.b.copy_(a.b);
  }
  second.load_state(first.state());
  for (int i = 0; i < 3; ++i) {
    step(a, first);
    step(b, second);
  }
  EXPECT_TRUE(torch::equal(a.w, b.w));
  EXPECT_TRUE(torch::equal(a.b, b.b));
}

std::string load_error(const std::map<std::string, Tensor>& state) {
  const Problem p(3);
  AdamW optimizer(p.groups(), {});
  return testing::error_of([&] { optimizer.load_state(state); });
}

TEST(AdamW, StateOfAnotherModelIsNamed) {
  const Problem p(3);
  const auto good = AdamW(p.groups(), {}).state();
  EXPECT_EQ(load_error(good), "");
  auto missing = good;
  missing.erase("exp_avg.b");
  EXPECT_NE(load_error(missing).find("exp_avg.b"), std::string::npos);
  auto extra = good;
  extra["exp_avg.z"] = torch::zeros({1});
  EXPECT_NE(load_error(extra).find("exp_avg.z"), std::string::npos);
  auto shape = good;
  shape["exp_avg_sq.w"] = torch::zeros({5, 8});
  EXPECT_NE(load_error(shape).find("[5, 8]"), std::string::npos);
}

TEST(ClipGradients, IsWhatTorchDoes) {
  Problem optimized(5), torchs(5);
  AdamW a(optimized.groups(), {}), b(torchs.groups(), {});
  for (int i = 0; i < 3; ++i) {
    a.zero_grad(), b.zero_grad();
    (optimized.loss() * 100).backward();
    (torchs.loss() * 100).backward();
    const double norm = gradient_norm(a.parameters());
    EXPECT_NEAR(torch::nn::utils::clip_grad_norm_(b.parameters(), 0.5), norm, 1e-5 * norm);
    ASSERT_GT(norm, 0.5);
    a.step(0.01, clip_scale(norm, 0.5));
    b.step(0.01);
  }
  EXPECT_TRUE(torch::allclose(optimized.w, torchs.w, 1e-5, 1e-7));
  EXPECT_TRUE(torch::allclose(optimized.b, torchs.b, 1e-5, 1e-7));
  EXPECT_EQ(clip_scale(0.25, 0.5), 1.0);
}

}  // namespace
}  // namespace tost
