#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>

#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/nn/mixer_tssa.h"
#include "tost/nn/state_dict.h"
#include "tost/ops/coding_rate_test_util.h"

namespace tost {
namespace mixer_tssa_tied_test {

using torch::Tensor;

constexpr int64_t kTokens = 17, kDim = 12, kHeads = 3, kWidth = 4;

// In float64, with all parameters away from their start.
std::shared_ptr<TssaTiedMixer> make_tied(uint64_t seed = 1) {
  torch::manual_seed(seed);
  auto mixer =
      std::make_shared<TssaTiedMixer>(MixerConfig{.dim = kDim, .heads = kHeads, .qkv_bias = true});
  mixer->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  mixer->basis.normal_();
  mixer->log_eta.fill_(0.7);
  mixer->step.fill_(1.3);
  return mixer;
}

Tensor tokens_of(int64_t batch = 2) {
  return torch::randn({batch, kTokens, kDim}, torch::kDouble);
}

double largest(const Tensor& x) {
  return x.abs().max().item<double>();
}

TEST(TssaTied, SubspacesAreOrthonormalAndSpanTheBasis) {
  const torch::NoGradGuard no_grad;
  const auto mixer = make_tied();
  const auto u = mixer->subspaces();
  const auto eye = torch::eye(kWidth, torch::kDouble);
  EXPECT_LT(largest(torch::matmul(u.transpose(1, 2), u) - eye), 1e-14);
  const auto r = torch::matmul(u.transpose(1, 2), mixer->basis);
  EXPECT_LT(largest(torch::matmul(u, r) - mixer->basis), 1e-13);
  EXPECT_LT(largest(r.tril(-1)), 1e-13);
  EXPECT_GT(r.diagonal(0, 1, 2).min().item<double>(), 0);
  mixer->basis.mul_(7);
  EXPECT_LT(largest(mixer->subspaces() - u), 1e-14);
}

// Written out token by token and head by head from the formulas.
TEST(TssaTied, EqualsItsDefinition) {
  const torch::NoGradGuard no_grad;
  const auto mixer = make_tied();
  const auto x = tokens_of(1);
  const auto u = mixer->subspaces();
  const double eta = std::exp(0.7);
  std::vector<Tensor> w, logits;
  for (int64_t k = 0; k < kHeads; ++k) {
    w.push_back(torch::matmul(x[0], u[k]));  // [N, P]
    logits.push_back(w[k].square().sum(1) / (2 * eta));
  }
  const auto pi = torch::stack(logits).softmax(0);  // [H, N]
  auto wanted = torch::zeros({kTokens, kDim}, torch::kDouble);
  for (int64_t k = 0; k < kHeads; ++k) {
    const auto moment = torch::matmul(pi[k], w[k].square()) / pi[k].sum();
    const auto weighted = w[k] * pi[k].unsqueeze(1) / (1 + moment);
    wanted -= 1.3 * torch::matmul(weighted, u[k].t());
  }
  MixerTrace trace;
  EXPECT_LT(largest(mixer->forward(x, {.trace = &trace})[0] - wanted), 1e-13);
  EXPECT_LT(largest(trace.pi[0] - pi), 1e-14);
  EXPECT_LT(largest(trace.w[0] - torch::cat(w, 1)), 1e-14);
}

TEST(TssaTied, IsAStepDownTheGradientOfTheBound) {
  const torch::NoGradGuard no_grad;
  const auto mixer = make_tied();
  const auto x = tokens_of();
  MixerTrace trace;
  const auto y = mixer->forward(x, {.trace = &trace});
  const auto gradient = testing::bound_gradient(x, mixer->subspaces(), trace.pi, 1);
  EXPECT_LT(largest(y + 1.3 * kTokens * gradient), 1e-13);
}

// In the basis, through the QR factor: central differences of a weighted sum of the output.
TEST(TssaTied, GradientsAgreeWithFiniteDifferences) {
  const auto mixer = make_tied();
  const auto x = tokens_of(), weight = tokens_of();
  const auto value = [&] { return (mixer->forward(x, {}) * weight).sum(); };
  value().backward();
  for (const auto& item : mixer->named_parameters()) {
    const auto gradient = item.value().grad().flatten();
    const torch::NoGradGuard no_grad;
    auto entries = item.value().data().flatten();  // shares the parameter's memory
    for (int64_t i = 0; i < entries.numel(); i += 7) {
      const double at = entries[i].item<double>(), h = 1e-6;
      entries[i] = at + h;
      const double up = value().item<double>();
      entries[i] = at - h;
      const double down = value().item<double>();
      entries[i] = at;
      EXPECT_NEAR(gradient[i].item<double>(), (up - down) / (2 * h), 1e-7)
          << item.key() << " " << i;
    }
  }
}

// With Pi held fixed the layer's step lowers the bound at its own input, whatever the weights.
TEST(TssaTied, LowersItsOwnObjective) {
  const torch::NoGradGuard no_grad;
  for (int seed = 0; seed < 20; ++seed) {
    const auto mixer = make_tied(uint64_t(seed));
    const auto x = tokens_of();
    for (const double step : {1e-3, 0.5, 1.0, 1.99}) {
      mixer->step.fill_(step);
      MixerTrace trace;
      const auto y = mixer->forward(x, {.trace = &trace});
      const auto bound = [&](const Tensor& z) {
        return compression_bound(project_heads(z, mixer->subspaces()), trace.pi, 1);
      };
      EXPECT_TRUE((bound(x + y) < bound(x)).all().item<bool>()) << seed << " step " << step;
    }
  }
}

// The released layer's free output matrix may do the opposite: here it is the tied one's negative.
TEST(TssaTied, TheFreeOutputMayRaiseTheSameObjective) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  TssaMixer mixer(MixerConfig{.dim = kDim, .heads = kHeads, .qkv_bias = false});
  mixer.to(torch::kDouble);
  const auto orthogonal = std::get<0>(torch::linalg_qr(torch::randn({kDim, kDim}, torch::kDouble)));
  mixer.qkv->weight.copy_(orthogonal);
  auto out = mixer.named_parameters()["to_out.0.weight"];
  mixer.named_parameters()["to_out.0.bias"].zero_();
  const auto x = tokens_of();
  for (const double sign : {1.0, -1.0}) {
    out.copy_(orthogonal.t() * sign);  // y already carries the minus of the step
    MixerTrace trace;
    const auto y = mixer.forward(x, {.trace = &trace});
    const auto bound = [&](const Tensor& z) {
      return compression_bound(project_heads(z, mixer.subspaces()), trace.pi, 1);
    };
    EXPECT_EQ((bound(x + y) < bound(x)).all().item<bool>(), sign > 0) << sign;
    EXPECT_EQ((bound(x + y) > bound(x)).all().item<bool>(), sign < 0) << sign;
  }
}

TEST(TssaTied, AModelDrawsItsBasisAndStaysFiniteWhileItTrains) {
  torch::manual_seed(3);
  auto config = vision_preset("tost_nano_p4");
  config.mixer = "tssa-tied";
  config.depth = 2;
  config.image_size = 12;
  const auto model = make_image_classifier(config);
  const auto state = state_dict(*model);
  const auto basis = state.at("blocks.1.attn.basis");
  EXPECT_EQ(basis.sizes(), torch::IntArrayRef({4, 64, 16}));
  EXPECT_NEAR(basis.std().item<float>(), 0.02, 2e-3);
  EXPECT_EQ(state.at("blocks.0.attn.step").item<float>(), 1);
  EXPECT_NEAR(state.at("blocks.0.attn.log_eta").item<float>(), std::log(16), 1e-6);
  const auto start = basis.clone();
  torch::optim::AdamW adamw(model->parameters(), torch::optim::AdamWOptions(2e-3));
  const auto images = torch::randn({8, 3, 12, 12});
  const auto labels = torch::randint(0, 10, {8}, torch::kInt64);
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    adamw.zero_grad();
    const auto loss = torch::cross_entropy_loss(model->forward(images), labels);
    loss.backward();
    adamw.step();
    (i == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, 0.3 * first);
  for (const auto& [name, tensor] : state)
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  EXPECT_GT(largest(basis - start), 0.01);
}

}  // namespace mixer_tssa_tied_test
}  // namespace tost
