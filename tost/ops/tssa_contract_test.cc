// Shapes, dtypes, errors, memory, higher derivatives.
#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tost/base/error.h"
#include "tost/kernels/block_cache.h"
#include "tost/ops/caching_allocator.h"
#include "tost/ops/tssa.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

std::string message_of(const Tensor& w, const Tensor& temp,
                       const std::optional<Tensor>& lengths = {}) {
  return testing::usage_error_of([&] { tssa(w, temp, lengths); });
}

TEST(TssaContract, BadInputsAreNamed) {
  const auto temp = torch::ones({3, 1});
  EXPECT_NE(message_of(torch::ones({4, 12}), temp).find("[batch, tokens, channels]"),
            std::string::npos);
  EXPECT_NE(message_of(torch::ones({1, 4, 13}), temp).find("13 channels"), std::string::npos);
  EXPECT_NE(message_of(torch::ones({1, 4, 0}), temp).find("0 channels"), std::string::npos);
  EXPECT_NE(message_of(torch::ones({1, 4, 12}, torch::kInt), temp).find("float32"),
            std::string::npos);
  EXPECT_NE(message_of(torch::ones({1, 4, 12}, torch::kHalf), temp).find("bfloat16"),
            std::string::npos);
  EXPECT_NE(message_of(torch::ones({1, 4, 12}), torch::ones({3})).find("[heads, 1]"),
            std::string::npos);
  EXPECT_NE(message_of(torch::ones({1, 4, 12}), torch::ones({0, 1})).find("0 heads"),
            std::string::npos);
  EXPECT_NE(message_of(torch::ones({1, 4, 12}), torch::ones({3, 1}, torch::kInt)).find("temp"),
            std::string::npos);
  EXPECT_THROW(tssa_uniform(torch::ones({1, 4, 12}), 5), Error);
}

TEST(TssaContract, BadLengthsAreNamed) {
  const auto message = [](const Tensor& lengths) {
    return message_of(torch::ones({2, 4, 12}), torch::ones({3, 1}), lengths);
  };
  const auto of = [](std::vector<int64_t> values) { return torch::tensor(values, torch::kLong); };
  EXPECT_NE(message(of({4, 4, 4})).find("[batch] = [2]"), std::string::npos);
  EXPECT_NE(message(of({4, 4}).view({2, 1})).find("[batch] = [2]"), std::string::npos);
  EXPECT_NE(message(of({4, 4}).to(torch::kInt)).find("int64"), std::string::npos);
  EXPECT_NE(message(of({4, 5})).find("lengths[1] is 5"), std::string::npos);
  EXPECT_NE(message(of({-1, 4})).find("from 0 to the 4 tokens"), std::string::npos);
  EXPECT_EQ(message(of({0, 4})), "");
  EXPECT_EQ(message(Tensor()), "");
}

// What compilers ask for a float16 tensor of a GPU.
TEST(TssaContract, GivesTheShapesOfFloat16WithoutData) {
  const auto meta = torch::device(torch::kMeta);
  const auto w = torch::empty({2, 5, 12}, meta.dtype(torch::kHalf));
  const auto [y, pi] = tssa(w, torch::empty({3, 1}, meta));
  EXPECT_EQ(y.sizes(), w.sizes());
  EXPECT_EQ(y.scalar_type(), torch::kHalf);
  EXPECT_EQ(pi.sizes(), torch::IntArrayRef({2, 3, 5}));
  EXPECT_EQ(pi.scalar_type(), torch::kFloat);
}

TEST(TssaContract, EmptyInputs) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
    for (const auto& [batch, tokens] : {std::pair<int64_t, int64_t>{0, 5}, {2, 0}, {0, 0}}) {
      const auto w = torch::ones({batch, tokens, 12}, dtype).requires_grad_();
      const auto temp = torch::ones({3, 1}).requires_grad_();
      const auto [y, pi] = tssa(w, temp);
      EXPECT_EQ(y.sizes(), w.sizes());
      EXPECT_EQ(pi.sizes(), (std::vector<int64_t>{batch, 3, tokens}));
      (y.sum() + pi.sum()).backward();
      EXPECT_EQ(w.grad().sizes(), w.sizes());
      EXPECT_TRUE(torch::equal(temp.grad(), torch::zeros({3, 1})));
    }
  }
}

TEST(TssaContract, DtypesOfResultsAndGradients) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
    for (const auto temp_dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
      const auto w = torch::randn({2, 5, 12}).to(dtype).requires_grad_();
      const auto temp = torch::ones({3, 1}, temp_dtype).requires_grad_();
      const auto [y, pi] = tssa(w, temp);
      EXPECT_EQ(y.scalar_type(), dtype);
      EXPECT_EQ(pi.scalar_type(), dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
      (y.sum() + pi.select(1, 0).sum()).backward();
      EXPECT_EQ(w.grad().scalar_type(), dtype);
      EXPECT_EQ(temp.grad().scalar_type(), temp_dtype);
    }
  }
}

TEST(TssaContract, ExpandedAndSharedGradients) {
  const auto w = torch::randn({2, 9, 12}).requires_grad_();
  const auto temp = torch::ones({3, 1}).requires_grad_();
  const auto expanded = torch::autograd::grad({std::get<0>(tssa(w, temp)).sum()}, {w, temp});
  const auto spread =
      torch::autograd::grad({std::get<0>(tssa(w, temp))}, {w, temp}, {torch::ones({2, 9, 12})});
  EXPECT_TRUE(torch::equal(expanded[0], spread[0]) && torch::equal(expanded[1], spread[1]));
  const auto only_pi =
      torch::autograd::grad({std::get<1>(tssa(w, temp)).select(1, 0).sum()}, {w, temp});
  EXPECT_GT(only_pi[0].abs().max().item<float>(), 0);
  const auto only_temp = torch::autograd::grad({std::get<0>(tssa(w.detach(), temp)).sum()}, {temp});
  EXPECT_TRUE(torch::equal(only_temp[0], spread[1]));
}

TEST(TssaContract, SecondDerivativesEqualThePlainForms) {
  const auto w = torch::randn({1, 6, 8}, torch::kFloat64).requires_grad_();
  const auto temp = torch::rand({2, 1}, torch::kFloat64).requires_grad_();
  const auto second = [&](auto op, const std::optional<Tensor>& lengths) {
    const auto [y, pi] = op(w, temp, lengths);
    const auto first =
        torch::autograd::grad({y.pow(2).sum() + pi.pow(2).sum()}, {w, temp}, {}, true, true);
    return torch::autograd::grad({first[0].pow(2).sum() + first[1].sum()}, {w, temp});
  };
  for (const auto& lengths : {std::optional<Tensor>(), {torch::full({1}, 4, torch::kLong)}}) {
    const auto found = second(tssa, lengths), expected = second(tssa_plain, lengths);
    EXPECT_TRUE(torch::allclose(found[0], expected[0], 1e-9, 1e-12));
    EXPECT_TRUE(torch::allclose(found[1], expected[1], 1e-9, 1e-12));
  }
}

// Its membership logits are constant there: gradients of every order are those without it.
TEST(TssaContract, AChannelOfZerosHasFiniteSecondDerivatives) {
  const auto second = [](const Tensor& values, const Tensor& factors) {
    const auto w = values.clone().requires_grad_();
    const auto temp = factors.clone().requires_grad_();
    const auto [y, pi] = tssa(w, temp);
    const auto first =
        torch::autograd::grad({y.pow(3).sum() + pi.pow(2).sum()}, {w, temp}, {}, true, true);
    return torch::autograd::grad({first[0].pow(2).sum() + first[1].pow(2).sum()}, {w, temp});
  };
  torch::manual_seed(3);
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const auto w = torch::randn({2, 6, 8}, dtype), temp = torch::rand({2, 1}, dtype);
    w.select(2, 1).zero_();
    const auto found = second(w, temp);
    EXPECT_TRUE(found[0].isfinite().all().item<bool>()) << found[0];
    EXPECT_TRUE(found[1].isfinite().all().item<bool>()) << found[1];
    EXPECT_LT(found[0].abs().max().item<double>(), 1e3);
    EXPECT_EQ(found[0].select(2, 1).abs().max().item<double>(), 0);
  }
}

TEST(TssaContract, KeepsLittleForBackward) {
  if (!caching_allocator_enabled())
    GTEST_SKIP() << "TOST_ALLOCATOR=system: nothing counts the memory";
  install_caching_allocator();
  const auto saved_by = [](auto op) {
    const auto w = torch::randn({4, 256, 384}).requires_grad_();
    const auto temp = torch::ones({6, 1}).requires_grad_();
    const int64_t before = BlockCache::instance().stats().in_use_bytes;
    const auto [y, pi] = op(w, temp, std::nullopt);
    const int64_t after = BlockCache::instance().stats().in_use_bytes;
    return static_cast<double>(after - before - static_cast<int64_t>(y.nbytes())) /
           static_cast<double>(w.nbytes());
  };
  // In addition to w itself: pi (1/64) and the statistics (2/256).
  EXPECT_LT(saved_by(tssa), 0.03);
  EXPECT_GT(saved_by(tssa_plain), 2);
}

}  // namespace
}  // namespace tost
