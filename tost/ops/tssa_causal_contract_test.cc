// Shapes, dtypes, errors, memory, higher derivatives of the causal operator.
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/kernels/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/tssa_causal.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

TEST(CausalContract, BadInputsAreNamed) {
  const auto w = torch::ones({2, 4, 12}), temp = torch::ones({3, 1}),
             bias = torch::zeros({3, 8, 1});
  const auto expect = [](const char* part, const Tensor& w, const Tensor& temp, const Tensor& bias,
                         const std::optional<Tensor>& state, int64_t position) {
    try {
      tssa_causal(w, temp, bias, state, position);
      ADD_FAILURE() << "nothing thrown, expected " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const auto state = [](int64_t batch, int64_t size) {
    return torch::zeros({batch, size}, torch::kFloat64);
  };
  expect("[batch, tokens, channels]", torch::ones({4, 12}), temp, bias, {}, 0);
  expect("13 channels", torch::ones({1, 4, 13}), temp, bias, {}, 0);
  expect("bfloat16", w.to(torch::kHalf), temp, bias, {}, 0);
  expect("[heads, 1]", w, torch::ones({3}), bias, {}, 0);
  expect("denom_bias must be [heads, positions, 1] with 3 heads", w, temp, torch::zeros({3, 8}), {},
         0);
  expect("[4, 8, 1]", w, temp, torch::zeros({4, 8, 1}), {}, 0);
  expect("[3, 8, 2]", w, temp, torch::zeros({3, 8, 2}), {}, 0);
  expect("floating-point", w, temp, bias.to(torch::kInt), {}, 0);
  expect("position is -1", w, temp, bias, {}, -1);
  expect("[2, 27], but is [2, 26]", w, temp, bias, state(2, 26), 0);
  expect("[2, 27], but is [1, 27]", w, temp, bias, state(1, 27), 0);
  expect("[2, 27], but is [27]", w, temp, bias, state(2, 27)[0], 0);
  expect("float64", w, temp, bias, torch::zeros({2, 27}), 0);
}

TEST(CausalContract, EmptyInputs) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
    for (const auto& [batch, tokens] : {std::pair<int64_t, int64_t>{0, 5}, {2, 0}, {0, 0}}) {
      const auto w = torch::ones({batch, tokens, 12}, dtype).requires_grad_();
      const auto temp = torch::ones({3, 1}).requires_grad_();
      const auto bias = torch::zeros({3, 4, 1}).requires_grad_();
      const auto [y, pi, state] = tssa_causal(w, temp, bias);
      EXPECT_EQ(y.sizes(), w.sizes());
      EXPECT_EQ(pi.sizes(), (std::vector<int64_t>{batch, 3, tokens}));
      EXPECT_TRUE(torch::equal(state, torch::zeros({batch, 27}, torch::kFloat64)));
      (y.sum() + pi.sum()).backward();
      EXPECT_EQ(w.grad().sizes(), w.sizes());
      EXPECT_TRUE(torch::equal(temp.grad(), torch::zeros({3, 1})));
      EXPECT_TRUE(torch::equal(bias.grad(), torch::zeros({3, 4, 1})));
    }
  }
}

TEST(CausalContract, DtypesOfResultsAndGradients) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
    for (const auto other : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
      const auto w = torch::randn({2, 5, 12}).to(dtype).requires_grad_();
      const auto temp = torch::ones({3, 1}, other).requires_grad_();
      const auto bias = torch::zeros({3, 3, 1}, other).requires_grad_();
      const auto [y, pi, state] = tssa_causal(w, temp, bias);
      EXPECT_EQ(y.scalar_type(), dtype);
      EXPECT_EQ(pi.scalar_type(), dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
      EXPECT_EQ(state.scalar_type(), torch::kFloat64);
      (y.sum() + pi.select(1, 0).sum()).backward();
      EXPECT_EQ(w.grad().scalar_type(), dtype);
      EXPECT_EQ(temp.grad().scalar_type(), other);
      EXPECT_EQ(bias.grad().scalar_type(), other);
    }
  }
}

TEST(CausalContract, ExpandedAndSharedGradients) {
  const auto w = torch::randn({2, 9, 12}).requires_grad_();
  const auto temp = torch::ones({3, 1}).requires_grad_();
  const auto bias = torch::zeros({3, 9, 1}).requires_grad_();
  const auto y = [&] { return std::get<0>(tssa_causal(w, temp, bias)); };
  const auto expanded = torch::autograd::grad({y().sum()}, {w, temp, bias});
  const auto spread = torch::autograd::grad({y()}, {w, temp, bias}, {torch::ones({2, 9, 12})});
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(expanded[i], spread[i])) << i;
  const auto only_pi = torch::autograd::grad(
      {std::get<1>(tssa_causal(w, temp, bias)).select(1, 0).sum()}, {w, bias});
  EXPECT_GT(only_pi[0].abs().max().item<float>(), 0);
  EXPECT_GT(only_pi[1].abs().max().item<float>(), 0);
  const auto only_bias = torch::autograd::grad(
      {std::get<0>(tssa_causal(w.detach(), temp.detach(), bias)).sum()}, {bias});
  EXPECT_TRUE(torch::equal(only_bias[0], spread[2]));
}

// float64 runs the closed form in ATen; autograd through the plain form is the other derivation.
TEST(CausalContract, DoubleGradientsEqualThePlainForms) {
  auto w = torch::randn({2, 150, 8}, torch::kFloat64);
  w.slice(2, 0, 1).slice(1, 0, 70).zero_();  // the clamp binds across a chunk
  w.requires_grad_();
  const auto temp = torch::rand({2, 1}, torch::kFloat64).requires_grad_();
  const auto bias = torch::rand({2, 100, 1}, torch::kFloat64).requires_grad_();
  const auto state = torch::rand({2, 18}, torch::kFloat64);
  for (const auto& before : {std::optional<Tensor>(), std::optional<Tensor>(state)}) {
    const auto first = [&](auto op) {
      const auto [y, pi, after] = op(w, temp, bias, before, 7);
      return torch::autograd::grad({y.pow(2).sum() + pi.pow(2).sum()}, {w, temp, bias});
    };
    const auto found = first(tssa_causal), expected = first(tssa_causal_plain);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-9, 1e-12)) << i;
  }
}

TEST(CausalContract, SecondDerivativesEqualThePlainForms) {
  const auto w = torch::randn({1, 6, 8}, torch::kFloat64).requires_grad_();
  const auto temp = torch::rand({2, 1}, torch::kFloat64).requires_grad_();
  const auto bias = torch::rand({2, 4, 1}, torch::kFloat64).requires_grad_();
  const auto state = torch::rand({1, 18}, torch::kFloat64);
  const auto second = [&](auto op) {
    const auto [y, pi, after] = op(w, temp, bias, state, 1);
    const auto first =
        torch::autograd::grad({y.pow(2).sum() + pi.pow(2).sum()}, {w, temp, bias}, {}, true, true);
    return torch::autograd::grad({first[0].pow(2).sum() + first[1].sum() + first[2].pow(2).sum()},
                                 {w, temp, bias});
  };
  const auto found = second(tssa_causal), expected = second(tssa_causal_plain);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-9, 1e-12)) << i;
}

TEST(CausalContract, KeepsLittleForBackward) {
  if (!caching_allocator_enabled())
    GTEST_SKIP() << "TOST_ALLOCATOR=system: nothing counts the memory";
  install_caching_allocator();
  const auto saved_by = [](auto op) {
    const auto w = torch::randn({4, 256, 384}).requires_grad_();
    const auto temp = torch::ones({6, 1}).requires_grad_();
    const auto bias = torch::zeros({6, 256, 1});
    const int64_t before = BlockCache::instance().stats().in_use_bytes;
    const auto [y, pi, state] = op(w, temp, bias, std::nullopt, 0);
    const int64_t after = BlockCache::instance().stats().in_use_bytes;
    return static_cast<double>(after - before - static_cast<int64_t>(y.nbytes())) /
           static_cast<double>(w.nbytes());
  };
  // In addition to w itself: pi (1/64), the sums before each chunk (2/64) and the state (4/256).
  EXPECT_LT(saved_by(tssa_causal), 0.07);
  EXPECT_GT(saved_by(tssa_causal_plain), 5);
}

}  // namespace
}  // namespace tost
