// The second half of a block: `tied` and `ista` are the steps on the objectives that nn/block.h
// states. Objectives are written out, and differentiated by autograd.
#include <gtest/gtest.h>

#include "tost/nn/block.h"

namespace tost {
namespace block_mlp_test {

using torch::Tensor;

constexpr int64_t kDim = 6, kAtoms = 15;

// In float64, with parameters of which some codes become 0.
Mlp make_mlp(const std::string& mlp) {
  torch::manual_seed(4);
  Mlp made({.dim = kDim, .mlp = mlp, .mlp_hidden = kAtoms, .bias = false});
  made.to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  made.dictionary->weight.normal_(0, 0.4);
  made.dictionary->bias.uniform_(-0.5, 0);
  if (made.step.defined()) made.step.fill_(0.3);
  return made;
}

Tensor tokens() {
  return torch::randn({2, 5, kDim}, torch::kDouble);
}

// L(a; x) of nn/block.h without the constraint, for rows of x and a.
Tensor objective(const Mlp& mlp, const Tensor& x, const Tensor& a) {
  const Tensor atoms = mlp.dictionary->weight;
  return 0.5 * (x - torch::matmul(a, atoms)).square().sum(-1) - (a * mlp.dictionary->bias).sum(-1);
}

// The largest distance of two tensors.
double apart(const Tensor& a, const Tensor& b) {
  return (a - b).abs().max().item<double>();
}

// The proximal step of size `size` on L from `start`, its gradient by autograd.
Tensor proximal_step(const Mlp& mlp, const Tensor& x, const Tensor& start, double size) {
  const Tensor a = start.detach().clone().requires_grad_(true);
  const Tensor gradient = torch::autograd::grad({objective(mlp, x, a).sum()}, {a})[0];
  return torch::relu(start - size * gradient);
}

TEST(BlockMlp, TiedStepsDownTheGradientOfItsEnergy) {
  const Mlp mlp = make_mlp("tied");
  const Tensor x = tokens().requires_grad_(true), d = mlp.dictionary->weight.detach();
  const Tensor active = torch::relu(torch::matmul(x, d.t()) + mlp.dictionary->bias.detach());
  const Tensor gradient = torch::autograd::grad({(-0.5 * active.square()).sum()}, {x})[0];
  Tensor codes;
  EXPECT_LT(apart(mlp.forward(x, &codes), -gradient), 1e-12);
  EXPECT_LT(apart(codes, proximal_step(mlp, x.detach(), torch::zeros_like(codes), 1)), 1e-12);
  const double zeros = (codes == 0).to(torch::kDouble).mean().item<double>();
  EXPECT_GT(zeros, 0.1);
  EXPECT_LT(zeros, 0.95);
}

// The codes are where the energy is the least over codes that are not negative.
TEST(BlockMlp, TiedCodesAreTheLeastOfTheEnergy) {
  const torch::NoGradGuard no_grad;
  const Mlp mlp = make_mlp("tied");
  const Tensor x = tokens(), d = mlp.dictionary->weight;
  const auto energy = [&](const Tensor& a) {
    return 0.5 * a.square().sum(-1) - (a * mlp.dictionary->bias).sum(-1) -
           (a * torch::matmul(x, d.t())).sum(-1);
  };
  Tensor codes;
  mlp.forward(x, &codes);
  EXPECT_LT(apart(energy(codes), -0.5 * codes.square().sum(-1)), 1e-12);
  for (int i = 0; i < 20; ++i) {
    const Tensor other = torch::relu(codes + 0.1 * torch::randn_like(codes));
    EXPECT_TRUE((energy(other) >= energy(codes) - 1e-12).all().item<bool>());
  }
}

TEST(BlockMlp, IstaIsTheProximalStepFromTheToken) {
  const Mlp mlp = make_mlp("ista");
  const Tensor x = tokens();
  Tensor codes;
  const Tensor y = mlp.forward(x, &codes);
  EXPECT_LT(apart(codes, proximal_step(mlp, x, x, 0.3)), 1e-12);
  EXPECT_LT(apart(x + y, codes), 1e-12);
  const double zeros = (codes == 0).to(torch::kDouble).mean().item<double>();
  EXPECT_GT(zeros, 0.1);
  EXPECT_LT(zeros, 0.95);
}

// A step of at most 1 / |D|² lowers L, from codes that are not negative.
TEST(BlockMlp, IstaLowersItsObjective) {
  const torch::NoGradGuard no_grad;
  Mlp mlp = make_mlp("ista");
  const double norm = torch::linalg_matrix_norm(mlp.dictionary->weight, 2).item<double>();
  for (const double share : {0.01, 0.5, 1.0}) {
    mlp.step.fill_(share / (norm * norm));
    const Tensor x = tokens().abs();
    Tensor codes;
    mlp.forward(x, &codes);
    EXPECT_TRUE((objective(mlp, x, codes) < objective(mlp, x, x)).all().item<bool>()) << share;
  }
}

// The block adds the step to the stream with tied, and starts from the normalised token with ista.
TEST(BlockMlp, TheBlockAppliesTheStep) {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"gelu", "tied", "ista"}) {
    torch::manual_seed(6);
    Block block({.dim = kDim, .mlp = name, .mlp_hidden = kAtoms, .layer_scale = 0.7},
                make_mixer("none", {.dim = kDim}));
    init_linears(block);
    const Tensor x = torch::randn({2, 5, kDim});
    BlockTrace trace;
    const Tensor y = block.forward(x, &trace);
    const Tensor n = block.norm2->forward(trace.mixed);
    Tensor codes;
    const Tensor step = block.mlp->forward(n, &codes);
    EXPECT_LT(apart(y, (name == "ista" ? n : trace.mixed) + 0.7 * step), 1e-6) << name;
    EXPECT_EQ(trace.codes.defined(), name != "gelu");
    if (name != "gelu") {
      EXPECT_TRUE(torch::equal(trace.codes, codes));
    }
    EXPECT_TRUE(torch::equal(block.forward(x), y)) << name;
    block.train();
    for (const auto recompute : {Recompute::kMlp, Recompute::kBlock}) {
      const torch::AutoGradMode with_gradients(true);
      std::vector<Tensor> grads;
      for (const bool again : {false, true}) {
        block.zero_grad();
        block.recompute = again ? recompute : Recompute::kNone;
        block.forward(x.clone().requires_grad_(true)).square().sum().backward();
        const auto& mlp = *block.mlp;
        grads.push_back((mlp.dictionary ? mlp.dictionary : mlp.fc1)->weight.grad().clone());
      }
      EXPECT_TRUE(torch::equal(grads[0], grads[1])) << name;
    }
  }
}

}  // namespace block_mlp_test
}  // namespace tost
