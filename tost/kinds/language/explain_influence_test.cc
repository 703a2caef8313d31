
#include <gtest/gtest.h>

#include <cmath>

#include "tost/kinds/language/eval_test_util.h"
#include "tost/kinds/language/explain_trace.h"

namespace tost {
namespace {

using torch::Tensor;

std::shared_ptr<TokenMixer> mixer_of(const char* name) {
  return blocks_of(*testing::tiny_model(name, "none"))[0]->attn;
}

Tensor some_tokens(int64_t count) {
  torch::manual_seed(5);
  return torch::randn({count, 16});
}

// Without a bias by position, leaving a token out of the state is leaving it out of the sequence.
TEST(TextInfluence, IsTheChangeWithoutTheToken) {
  for (const char* name : {"tssa", "softmax", "linear"}) {
    const auto mixer = mixer_of(name);
    const torch::NoGradGuard no_grad;
    const auto x = some_tokens(7);
    const auto influence = token_influence(*mixer, x);
    const auto whole = mixer->forward(x.unsqueeze(0), {})[0];
    for (int64_t j = 0; j < 6; ++j) {
      const auto rest = torch::cat({x.narrow(0, 0, j), x.narrow(0, j + 1, 6 - j)});
      const auto without = mixer->forward(rest.unsqueeze(0), {})[0];
      for (int64_t t = j + 1; t < 7; ++t) {
        const double wanted = ((whole[t] - without[t - 1]).norm() / whole[t].norm()).item<double>();
        EXPECT_NEAR(influence[j][t].item<double>(), wanted, 1e-4) << name << j << "," << t;
      }
    }
    EXPECT_EQ(influence.tril().abs().max().item<double>(), 0) << name;
    EXPECT_GT(influence.max().item<double>(), 0.001) << name;
  }
}

TEST(TextInfluence, NothingMixesNothing) {
  EXPECT_LE(token_influence(*mixer_of("none"), some_tokens(5)).max().item<double>(), 1e-6);
}

TEST(TextInfluence, BiasesStayAtTheirPositions) {
  const auto mixer = mixer_of("tssa");
  {
    // A token of no size changes nothing, whatever the biases of the positions.
    const torch::NoGradGuard no_grad;
    mixer->named_parameters()["denom_bias"].normal_();
    mixer->named_parameters()["temp"].fill_(0);  // equal memberships
  }
  auto x = some_tokens(6);
  x.mul_(1e3);  // the first token's share of the sums is what is left of its neighbours
  const auto influence = token_influence(*mixer, x);
  const auto w = x.matmul(mixer->named_parameters()["c_attn.weight"].t()).to(torch::kDouble);
  const auto damped = [&](int64_t count) {  // the last token's y, up to a factor, by hand
    const auto s = w.narrow(0, 6 - count, count).square().mean(0);
    return w[5] / (1 + s);
  };
  const auto project = mixer->named_parameters()["c_proj.weight"].to(torch::kDouble).t();
  const auto all = damped(6).matmul(project), rest = damped(5).matmul(project);
  const double wanted = ((all - rest).norm() / all.norm()).item<double>();
  EXPECT_NEAR(influence[0][5].item<double>(), wanted, 1e-3 * wanted);
}

TEST(TextInfluence, MeansByDistanceAndByToken) {
  const auto influence = torch::tensor({{0., 1., 2.}, {0., 0., 5.}, {0., 0., 0.}}, torch::kDouble);
  const auto by_distance = influence_by_distance(influence);
  EXPECT_EQ(by_distance[0].item<double>(), 3);
  EXPECT_EQ(by_distance[1].item<double>(), 2);
  const auto near = influence_of_tokens(influence, 1);
  EXPECT_EQ(near[0].item<double>(), 1);
  EXPECT_EQ(near[1].item<double>(), 5);
  EXPECT_TRUE(std::isnan(near[2].item<double>()));
  const auto far = influence_of_tokens(influence, 2);
  EXPECT_EQ(far[0].item<double>(), 1.5);
  EXPECT_TRUE(std::isnan(far[1].item<double>()));
  EXPECT_EQ(influence_reach(200), 32);
  EXPECT_EQ(influence_reach(7), 3);
  EXPECT_EQ(influence_reach(1), 1);
}

TEST(TextInfluence, OneToken) {
  const auto influence = token_influence(*mixer_of("tssa"), some_tokens(1));
  EXPECT_EQ(influence.sizes(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(influence_by_distance(influence).numel(), 0);
}

}  // namespace
}  // namespace tost
