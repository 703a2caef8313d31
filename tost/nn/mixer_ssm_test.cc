#include "tost/nn/mixer_ssm.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tost {
namespace {

using torch::Tensor;

std::shared_ptr<TokenMixer> random_mixer() {
  torch::manual_seed(3);
  auto mixer = make_mixer("ssm", {.dim = 8, .heads = 2});
  init_linears(*mixer);
  mixer->draw_weights();
  const torch::NoGradGuard no_grad;
  for (auto& p : mixer->parameters()) p.add_(torch::randn_like(p) * 0.2);
  return mixer;
}

TEST(SsmMixer, PaddingIsAsIfItWereNotThere) {
  const auto mixer = random_mixer();
  const std::vector<int64_t> lengths{300, 1, 129, 40};
  auto x = torch::randn({4, 300, 8});
  for (size_t b = 0; b < lengths.size(); ++b) {
    x[int64_t(b)]
        .narrow(0, lengths[b], 300 - lengths[b])
        .fill_(std::numeric_limits<float>::quiet_NaN());
  }
  x.requires_grad_();
  const auto y = mixer->forward(x, {.lengths = torch::tensor(lengths)});
  const auto weight = torch::randn({300, 8});
  Tensor sum = torch::zeros({});
  for (size_t b = 0; b < lengths.size(); ++b) {
    sum = sum + (y[int64_t(b)] * weight).narrow(0, 0, lengths[b]).sum();
  }
  const auto grad = torch::autograd::grad({sum}, {x})[0];
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t i = int64_t(b), n = lengths[b];
    const auto separate = x.detach()[i].narrow(0, 0, n).unsqueeze(0).clone().requires_grad_();
    const auto single = mixer->forward(separate, {})[0];
    EXPECT_TRUE(torch::allclose(y[i].narrow(0, 0, n), single, 1e-5, 1e-6)) << n;
    const auto wanted =
        torch::autograd::grad({(single * weight.narrow(0, 0, n)).sum()}, {separate})[0][0];
    EXPECT_TRUE(torch::allclose(grad[i].narrow(0, 0, n), wanted, 1e-5, 1e-5)) << n;
    EXPECT_EQ(grad[i].narrow(0, n, 300 - n).abs().sum().item<float>(), 0) << n;
  }
}

TEST(SsmMixer, ReadsTokensInOrderFromBothSides) {
  const auto mixer = random_mixer();
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({1, 200, 8});
  const auto y = mixer->forward(x, {});
  for (const int64_t changed : {0, 100, 199}) {
    auto other = x.clone();
    other.select(1, changed) += 1;
    const auto change = (mixer->forward(other, {}) - y).abs().amax({0, 2});
    EXPECT_GT(change[99].item<float>(), 1e-5) << changed;
    EXPECT_GT(change[101].item<float>(), 1e-5) << changed;
  }
  EXPECT_FALSE(torch::allclose(mixer->forward(x.flip(1), {}).flip(1), y, 1e-3, 1e-3));
}

TEST(SsmMixer, HasTheWeightsOfTwoProjectionsAndItsRates) {
  int64_t count = 0;
  for (const auto& p : random_mixer()->parameters()) count += p.numel();
  // GLU 2 C² + 2 C; a channel: Δ, d, 16 rates of two numbers, two sides of 16 complex weights.
  EXPECT_EQ(count, 2 * 64 + 16 + 8 * (2 + 2 * 16 + 4 * 16));
}

TEST(SsmMixer, MultiplyAddsCountChunksAndStates) {
  const MixerConfig config{.dim = 8, .heads = 2};
  // 4 chunks of 25 tokens, 782 of 128; 16 states of two numbers in and out, from two sides.
  EXPECT_EQ(mixer_multiply_adds("ssm", config, 100), 100 * (2 * 64 + 8 * (25 + 128)));
  EXPECT_EQ(mixer_multiply_adds("ssm", config, 100'000), 100'000 * (2 * 64 + 8 * (128 + 128)));
}

}  // namespace
}  // namespace tost
