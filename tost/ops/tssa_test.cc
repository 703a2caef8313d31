// Values and gradients of the kernels against the plain form in float64. What is allowed is a
// multiple of the error that the plain form itself makes in the same dtype.
#include "tost/ops/tssa.h"

#include <gtest/gtest.h>

#include <functional>

#include "tost/kernels/isa.h"
#include "tost/ops/tssa_cases_test_util.h"

namespace tost {
namespace tssa_test {

using torch::Tensor;
using Lengths = std::optional<Tensor>;
using Operator =
    std::function<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Lengths&)>;

struct Outcome {
  Tensor y, pi, grad_w, grad_temp;
};

// Gradients flow through both outputs.
Outcome run(const Operator& op, const Tensor& w, const Tensor& temp, const Tensor& grad_y,
            const Tensor& grad_pi, const Lengths& lengths = {}) {
  const auto w_leaf = w.detach().requires_grad_();
  const auto temp_leaf = temp.detach().clone().requires_grad_();
  const auto [y, pi] = op(w_leaf, temp_leaf, lengths);
  const auto grads = torch::autograd::grad(
      {y, pi}, {w_leaf, temp_leaf}, {grad_y.to(y.scalar_type()), grad_pi.to(pi.scalar_type())});
  return {y.detach(), pi.detach(), grads[0], grads[1]};
}

double error_of(const Tensor& found, const Tensor& reference) {
  return found.numel() == 0 ? 0
                            : (found.to(torch::kFloat64) - reference).abs().max().item<double>();
}

void expect_close(const Tensor& found, const Tensor& plain, const Tensor& reference, double floor,
                  const char* what) {
  ASSERT_EQ(found.sizes(), reference.sizes()) << what;
  ASSERT_TRUE(torch::isfinite(found).all().item<bool>()) << what;
  const double largest = reference.numel() == 0 ? 0 : reference.abs().max().item<double>();
  const double allowed = 3 * error_of(plain, reference) + 1e-6 * largest + floor;
  EXPECT_LE(error_of(found, reference), allowed) << what << ", largest value " << largest;
}

void check(const TssaCase& c, torch::ScalarType dtype) {
  SCOPED_TRACE(::testing::Message() << c << " " << dtype << " " << kernels::current_isa());
  const auto w = tssa_case_tokens(c, dtype, 1);
  const auto temp = tssa_case_temp(c);
  TssaCase unit = c;
  unit.scale = 1, unit.zero_channels = 0, unit.lengths.clear();
  const auto grad_y = tssa_case_tokens(unit, dtype, 2);
  const auto grad_pi =
      torch::linspace(-1, 1, c.batch * c.heads * c.tokens).view({c.batch, c.heads, c.tokens});
  const auto lengths = tssa_case_lengths(c);
  const auto found = run(tssa, w, temp, grad_y, grad_pi, lengths);
  const auto plain = run(tssa_plain, w, temp, grad_y, grad_pi, lengths);
  const auto exact = run(tssa_plain, w.to(torch::kFloat64), temp.to(torch::kFloat64),
                         grad_y.to(torch::kFloat64), grad_pi.to(torch::kFloat64), lengths);
  EXPECT_EQ(found.y.scalar_type(), dtype);
  EXPECT_EQ(found.pi.scalar_type(), torch::kFloat32);
  expect_close(found.y, plain.y, exact.y, 0, "y");
  expect_close(found.pi, plain.pi, exact.pi, 0, "pi");
  expect_close(found.grad_w, plain.grad_w, exact.grad_w, 0, "grad_w");
  // The gradient of temp is a sum of terms that cancel; they are as large as g y and Pi times a, a
  // <= P.
  const auto terms =
      (grad_y.to(torch::kFloat64) * exact.y).abs().sum() + (grad_pi * exact.pi).abs().sum();
  const double largest_logit =
      static_cast<double>(c.width) / std::max<int64_t>(1, std::min<int64_t>(c.tokens, c.width));
  expect_close(found.grad_temp, plain.grad_temp, exact.grad_temp,
               3e-7 * largest_logit * terms.item<double>(), "grad_temp");
}

class TssaCases : public ::testing::TestWithParam<TssaCase> {};

TEST_P(TssaCases, AgreesWithThePlainFormOnEveryIsa) {
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) check(GetParam(), dtype);
  }
  kernels::force_isa("auto");
}

TEST_P(TssaCases, ThreadsDoNotChangeABit) {
  const TssaCase& c = GetParam();
  const int before = at::get_num_threads();
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto w = tssa_case_tokens(c, dtype, 1);
    const auto grad = tssa_case_tokens(c, dtype, 2);
    const auto lengths = tssa_case_lengths(c);
    const auto grad_pi = torch::ones({c.batch, c.heads, c.tokens});
    at::set_num_threads(1);
    const auto one = run(tssa, w, tssa_case_temp(c), grad, grad_pi, lengths);
    for (const int threads : {2, 3, 7}) {
      at::set_num_threads(threads);
      const auto many = run(tssa, w, tssa_case_temp(c), grad, grad_pi, lengths);
      EXPECT_TRUE(torch::equal(one.y, many.y) && torch::equal(one.pi, many.pi)) << threads;
      EXPECT_TRUE(torch::equal(one.grad_w, many.grad_w) &&
                  torch::equal(one.grad_temp, many.grad_temp))
          << threads;
    }
  }
  at::set_num_threads(before);
}

class TssaRaggedCases : public ::testing::TestWithParam<TssaCase> {};

// A sample among padding is, bit for bit, its valid tokens alone; padding is 0.
TEST_P(TssaRaggedCases, PaddingDoesNotChangeABit) {
  const TssaCase& c = GetParam();
  const auto grad_pi =
      torch::linspace(-1, 1, c.batch * c.heads * c.tokens).view({c.batch, c.heads, c.tokens});
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
      const auto w = tssa_case_tokens(c, dtype, 1), grad = tssa_case_tokens(c, dtype, 2);
      const auto whole = run(tssa, w, tssa_case_temp(c), grad, grad_pi, tssa_case_lengths(c));
      for (int64_t i = 0; i < c.batch; ++i) {
        SCOPED_TRACE(::testing::Message() << isa << " " << dtype << " sample " << i);
        const int64_t length = c.lengths[size_t(i)], rest = c.tokens - length;
        const auto part = [&](const Tensor& x, int64_t dim) {
          return x.narrow(0, i, 1).narrow(dim, 0, length);
        };
        const auto single =
            run(tssa, part(w, 1), tssa_case_temp(c), part(grad, 1), part(grad_pi, 2));
        EXPECT_TRUE(torch::equal(part(whole.y, 1), single.y));
        EXPECT_TRUE(torch::equal(part(whole.pi, 2), single.pi));
        EXPECT_TRUE(torch::equal(part(whole.grad_w, 1), single.grad_w));
        for (const auto& x : {whole.y[i], whole.pi[i].t(), whole.grad_w[i]}) {
          EXPECT_EQ(x.narrow(0, length, rest).count_nonzero().item<int64_t>(), 0);
        }
      }
    }
  }
  kernels::force_isa("auto");
}

INSTANTIATE_TEST_SUITE_P(All, TssaCases, ::testing::ValuesIn(tssa_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Alone, TssaRaggedCases, ::testing::ValuesIn(tssa_ragged_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Ragged, TssaCases, ::testing::ValuesIn(tssa_ragged_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(TssaRange, LongSumsKeepTheirDigits) {
  check({"n16384", 1, 16384, 2, 16}, torch::kFloat32);
  check({"n50000", 1, 50000, 1, 4}, torch::kFloat32);
}

TEST(TssaRange, HugeValuesStayFinite) {
  for (const double scale : {1e10, 1e15, 1e17}) {
    const TssaCase c{"huge", 2, 40, 3, 8, scale};
    const auto w = tssa_case_tokens(c, torch::kFloat32, 1);
    const auto grad = torch::ones_like(w);
    const auto found = run(tssa, w, tssa_case_temp(c), grad, torch::ones({2, 3, 40}));
    const auto exact = run(tssa_plain, w.to(torch::kFloat64), tssa_case_temp(c).to(torch::kFloat64),
                           grad.to(torch::kFloat64), torch::ones({2, 3, 40}, torch::kFloat64));
    EXPECT_LE(error_of(found.y, exact.y), 1e-5 * exact.y.abs().max().item<double>()) << scale;
    EXPECT_LE(error_of(found.pi, exact.pi), 1e-5) << scale;
    EXPECT_TRUE(torch::isfinite(found.grad_w).all().item<bool>()) << scale;
    EXPECT_TRUE(torch::isfinite(found.grad_temp).all().item<bool>()) << scale;
  }
  // Energies beyond float32 become infinite; the plain form gives 0 there, and so must we.
  const auto w = torch::full({1, 4, 6}, 1e19f);
  const auto [y, pi] = tssa(w, torch::ones({2, 1}));
  EXPECT_TRUE(torch::isfinite(y).all().item<bool>() && torch::isfinite(pi).all().item<bool>());
}

TEST(TssaRange, NaNIsNotHidden) {
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    auto w = torch::randn({1, 20, 24});
    w[0][3][5] = std::numeric_limits<float>::quiet_NaN();
    const auto [y, pi] = tssa(w, torch::ones({3, 1}));
    EXPECT_TRUE(torch::isnan(y[0][3]).all().item<bool>() && torch::isnan(pi).all().item<bool>())
        << isa;
    const auto [y2, pi2] = tssa(torch::randn({1, 20, 24}), torch::full({3, 1}, NAN));
    EXPECT_TRUE(torch::isnan(y2).all().item<bool>() && torch::isnan(pi2).all().item<bool>()) << isa;
  }
  kernels::force_isa("auto");
}

TEST(TssaRange, Identities) {
  const auto w = torch::randn({2, 37, 40});
  const auto temp = torch::rand({5, 1}) * 4;
  const auto [y, pi] = tssa(w, temp);
  EXPECT_TRUE(torch::allclose(pi.sum(1), torch::ones({2, 37}), 0, 1e-6));
  const auto order = torch::randperm(37);
  const auto [permuted, permuted_pi] = tssa(w.index_select(1, order), temp);
  EXPECT_TRUE(torch::allclose(permuted, y.index_select(1, order), 1e-5, 1e-6));
  // One token: every normalised feature is 1, so the logit is P temp.
  const auto [one, one_pi] = tssa(torch::rand({1, 1, 40}) + 0.1, temp);
  EXPECT_TRUE(torch::allclose(one_pi.view({5}), torch::softmax(8 * temp.view({5}), 0), 1e-5, 1e-6));
}

TEST(TssaUniform, IsTheOperatorWithFlatMemberships) {
  const auto w = torch::randn({2, 9, 12}, torch::kFloat64);
  const auto [y, pi] = tssa_plain(w, torch::zeros({3, 1}, torch::kFloat64));
  EXPECT_TRUE(torch::allclose(tssa_uniform(w, 3), y, 1e-12, 1e-12));
  const auto lengths = torch::tensor({4, 0}, torch::kLong);
  const auto [ragged, ragged_pi] = tssa_plain(w, torch::zeros({3, 1}, torch::kFloat64), lengths);
  EXPECT_TRUE(torch::allclose(tssa_uniform(w, 3, lengths), ragged, 1e-12, 1e-12));
}

}  // namespace tssa_test
}  // namespace tost
