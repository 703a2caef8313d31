#include "tost/train/muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/errors.h"
#include "tost/nn/block.h"
#include "tost/nn/causal_mixer.h"

namespace tost {
namespace muon_test {

using torch::Tensor;

// The polynomial on the singular values themselves.
Tensor by_singular_values(const Tensor& x) {
  auto [u, s, v] = at::linalg_svd(x.to(torch::kDouble), /*full_matrices=*/false);
  s = s / s.norm();
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s.pow(3) + 2.0315 * s.pow(5);
  return torch::matmul(u * s, v);
}

TEST(Muon, MakesMatricesOrthogonal) {
  torch::manual_seed(1);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{20, 20}, {12, 40}, {40, 12}}) {
    const Tensor x = torch::randn({rows, columns});
    EXPECT_TRUE(torch::allclose(orthogonal(x).to(torch::kDouble), by_singular_values(x), 0, 1e-4));
  }
  const Tensor one = at::linalg_svdvals(orthogonal(torch::randn({12, 40})));
  EXPECT_TRUE((one > 0.6).all().item<bool>() && (one < 1.3).all().item<bool>()) << one;
  EXPECT_EQ(orthogonal(torch::zeros({3, 4})).count_nonzero().item<int64_t>(), 0);
}

TEST(Muon, EqualsItsDefinition) {
  torch::manual_seed(2);
  const Tensor weight = torch::randn({24, 8}), buffer = torch::zeros({24, 8});
  auto wanted = weight.to(torch::kDouble), momentum = buffer.to(torch::kDouble);
  const MuonStep options{
      .lr = 0.03, .momentum = 0.9, .weight_decay = 0.5, .gradient_scale = 0.25, .parts = 3};
  for (int step = 0; step < 6; ++step) {
    const Tensor gradient = torch::randn({24, 8});
    muon_step(options, weight, buffer, gradient);
    const auto g = 0.25 * gradient.to(torch::kDouble);
    momentum = 0.9 * momentum + 0.1 * g;
    const auto ahead = 0.1 * g + 0.9 * momentum;
    std::vector<Tensor> steps;
    for (const Tensor& part : ahead.chunk(3)) steps.push_back(by_singular_values(part));
    wanted = wanted * (1 - 0.03 * 0.5) - 0.03 * 0.2 * std::sqrt(8.0) * torch::cat(steps);
  }
  EXPECT_TRUE(torch::allclose(buffer.to(torch::kDouble), momentum, 1e-5, 1e-7));
  EXPECT_TRUE(torch::allclose(weight.to(torch::kDouble), wanted, 1e-4, 1e-5));
}

// torch.optim.Muon of torch 2.15 with lr 0.1, weight_decay 0.2, momentum 0.9 and adjust_lr_fn
// "match_rms_adamw"; its products are bfloat16, which is 2 % of these steps.
TEST(Muon, IsNearThatOfPyTorch) {
  const Tensor k = torch::arange(15.);
  const Tensor weight = (k * 0.7).sin().view({3, 5}), buffer = torch::zeros({3, 5});
  for (int step = 0; step < 3; ++step) {
    muon_step({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2}, weight, buffer,
              (k * k * (0.37 + step)).sin().view({3, 5}));
  }
  const Tensor weights = torch::tensor({-0.022841, 0.522496, 0.918707, 0.814454, 0.335466,
                                        -0.359276, -0.82521, -0.879707, -0.562165, 0.100582,
                                        0.712714, 0.892471, 0.770698, 0.349901, -0.298218});
  const Tensor momentum =
      torch::tensor({0.0, 0.18721, 0.010386, 0.025156, -0.000468, 0.083945, -0.065221, -0.124899,
                     -0.028406, -0.18946, -0.235148, 0.040326, 0.155462, -0.197149, -0.15296});
  EXPECT_TRUE(torch::allclose(weight.flatten(), weights, 0, 2.5e-3));
  EXPECT_TRUE(torch::allclose(buffer.flatten(), momentum, 1e-5, 1e-6));
}

struct Network : torch::nn::Module {
  Network() {
    torch::manual_seed(3);
    CausalMixerConfig config{.dim = 16, .heads = 2, .block = 8, .bias = true};
    config.options.gate = true;
    block = register_module(
        "h", std::make_shared<Block>(BlockConfig{.dim = 16, .mlp_hidden = 40, .layer_scale = 1},
                                     make_causal_mixer("means", config)));
    head = register_module("head", std::make_shared<Linear>(16, 16, false));
    const torch::NoGradGuard no_grad;
    for (auto& one : parameters()) one.normal_(0, 0.3);
  }
  std::vector<ParamGroup> groups() const {
    ParamGroup all{.names = {}, .params = {}, .weight_decay = 0.1};
    for (const auto& one : named_parameters()) {
      all.names.push_back(one.key());
      all.params.push_back(one.value());
    }
    return with_muon(*this, {all});
  }
  void step(AdamW& optimizer) {
    optimizer.zero_grad();
    const auto x = torch::arange(2 * 8 * 16.).sin().view({2, 8, 16});
    head->forward(block->forward(x)).square().mean().backward();
    optimizer.step(0.01, 0.5);
  }

  std::shared_ptr<Block> block;
  std::shared_ptr<Linear> head;
};

TEST(Muon, HasTheMatricesOfBlocksAlone) {
  const auto groups = Network().groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1].names,
            (std::vector<std::string>{"h.attn.c_attn.weight", "h.attn.c_proj.weight",
                                      "h.mlp.fc1.weight", "h.mlp.fc2.weight"}));
  EXPECT_EQ(groups[1].muon_parts, (std::vector<int64_t>{3, 1, 1, 1}));
  EXPECT_EQ(groups[1].weight_decay, 0.1);
  EXPECT_TRUE(groups[0].muon_parts.empty());
}

TEST(Muon, ASavedStateContinuesExactly) {
  Network a, b;
  AdamW first(a.groups(), {}), second(b.groups(), {});
  for (int i = 0; i < 3; ++i) a.step(first);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& one : b.named_parameters()) one.value().copy_(a.named_parameters()[one.key()]);
  }
  EXPECT_TRUE(first.state().contains("momentum_buffer.h.mlp.fc1.weight"));
  EXPECT_FALSE(first.state().contains("exp_avg.h.mlp.fc1.weight"));
  second.load_state(first.state());
  for (int i = 0; i < 3; ++i) a.step(first), b.step(second);
  for (const auto& one : b.named_parameters()) {
    EXPECT_TRUE(torch::equal(one.value(), a.named_parameters()[one.key()])) << one.key();
  }
  auto state = first.state();
  state.erase("momentum_buffer.h.mlp.fc1.weight");
  EXPECT_NE(testing::data_error_of([&] { second.load_state(state); }).find("momentum_buffer.h"),
            std::string::npos);
}

}  // namespace muon_test
}  // namespace tost
