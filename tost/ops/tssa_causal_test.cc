// Values and gradients of the causal kernels against the plain form in float64. What is allowed is
// a multiple of the error that the plain form itself makes in the same dtype.
#include "tost/ops/tssa_causal.h"

#include <gtest/gtest.h>

#include "tost/kernels/isa.h"
#include "tost/ops/tssa_cases_test_util.h"

namespace tost {
namespace tssa_causal_test {

using torch::Tensor;
using Operator = decltype(&tssa_causal);

struct CausalInputs {
  Tensor w, temp, bias, grad_y, grad_pi;
  std::optional<Tensor> state;
  int64_t position = 0;

  CausalInputs to(torch::ScalarType dtype) const {
    CausalInputs other = *this;
    for (Tensor* x : {&other.w, &other.temp, &other.bias, &other.grad_y, &other.grad_pi})
      *x = x->to(dtype);
    return other;
  }
};

struct Outcome {
  Tensor y, pi, state, grad_w, grad_temp, grad_bias;
};

// Gradients flow through both outputs.
Outcome run(Operator op, const CausalInputs& in) {
  const auto w = in.w.detach().requires_grad_();
  const auto temp = in.temp.detach().clone().requires_grad_();
  const auto bias = in.bias.detach().clone().requires_grad_();
  const auto [y, pi, state] = op(w, temp, bias, in.state, in.position);
  const auto grads = torch::autograd::grad(
      {y, pi}, {w, temp, bias}, {in.grad_y.to(y.scalar_type()), in.grad_pi.to(pi.scalar_type())});
  return {y.detach(), pi.detach(), state, grads[0], grads[1], grads[2]};
}

// What comes with a case's w: how many positions have a bias, and what was before.
struct Surroundings {
  int64_t bias_length = 0;
  int64_t position = 0;
  bool state = false;
};

CausalInputs inputs_of(const TssaCase& c, const Surroundings& around, torch::ScalarType dtype) {
  CausalInputs in;
  in.w = tssa_case_tokens(c, dtype, 1);
  in.temp = tssa_case_temp(c);
  TssaCase unit = c;
  unit.scale = 1, unit.zero_channels = 0;
  in.grad_y = tssa_case_tokens(unit, dtype, 2);
  in.grad_pi =
      torch::linspace(-1, 1, c.batch * c.heads * c.tokens).view({c.batch, c.heads, c.tokens});
  in.bias = torch::linspace(-0.1, 0.2, c.heads * around.bias_length)
                .view({c.heads, around.bias_length, 1});
  in.position = around.position;
  if (around.state) {
    const auto before =
        tssa_case_tokens({"before", c.batch, 20, c.heads, c.width, c.scale}, torch::kFloat64, 3);
    in.state = std::get<2>(tssa_causal_plain(before, in.temp, in.bias));
  }
  return in;
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

void check(const TssaCase& c, const Surroundings& around, torch::ScalarType dtype) {
  const CausalInputs in = inputs_of(c, around, dtype);
  const auto plain = run(tssa_causal_plain, in);
  const auto exact = run(tssa_causal_plain, in.to(torch::kFloat64));
  // The gradients of temp and bias are sums of terms that cancel; they are as large as g y and Pi.
  const double terms =
      ((in.grad_y.to(torch::kFloat64) * exact.y).abs().sum() + (in.grad_pi * exact.pi).abs().sum())
          .item<double>();
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    SCOPED_TRACE(::testing::Message() << c << " " << dtype << " " << isa);
    const auto found = run(tssa_causal, in);
    EXPECT_EQ(found.y.scalar_type(), dtype);
    EXPECT_EQ(found.pi.scalar_type(), torch::kFloat32);
    expect_close(found.y, plain.y, exact.y, 0, "y");
    expect_close(found.pi, plain.pi, exact.pi, 0, "pi");
    expect_close(found.state, plain.state, exact.state, 0, "state");
    expect_close(found.grad_w, plain.grad_w, exact.grad_w, 0, "grad_w");
    expect_close(found.grad_temp, plain.grad_temp, exact.grad_temp, 3e-7 * c.width * terms,
                 "grad_temp");
    expect_close(found.grad_bias, plain.grad_bias, exact.grad_bias, 3e-7 * c.width, "grad_bias");
  }
  kernels::force_isa("auto");
}

class CausalCases : public ::testing::TestWithParam<TssaCase> {};

TEST_P(CausalCases, AgreesWithThePlainFormOnEveryIsa) {
  const TssaCase& c = GetParam();
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    check(c, {c.tokens / 2, 0, false}, dtype);
    check(c, {c.tokens + 30, 20, true}, dtype);
  }
}

TEST_P(CausalCases, ThreadsDoNotChangeABit) {
  const TssaCase& c = GetParam();
  const int before = at::get_num_threads();
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const CausalInputs in = inputs_of(c, {c.tokens / 2, 0, false}, dtype);
    at::set_num_threads(1);
    const auto one = run(tssa_causal, in);
    for (const int threads : {2, 3, 7}) {
      at::set_num_threads(threads);
      const auto many = run(tssa_causal, in);
      EXPECT_TRUE(torch::equal(one.y, many.y) && torch::equal(one.pi, many.pi)) << threads;
      EXPECT_TRUE(torch::equal(one.state, many.state)) << threads;
      EXPECT_TRUE(torch::equal(one.grad_w, many.grad_w)) << threads;
      EXPECT_TRUE(torch::equal(one.grad_temp, many.grad_temp)) << threads;
      EXPECT_TRUE(torch::equal(one.grad_bias, many.grad_bias)) << threads;
    }
  }
  at::set_num_threads(before);
}

std::vector<TssaCase> causal_cases() {
  auto cases = tssa_cases();
  // More work than one thread does alone: whole samples, and windows over heads.
  cases.push_back({"samples", 8, 150, 4, 32});
  cases.push_back({"windows", 1, 9000, 5, 16});
  cases.push_back({"windows_of_two", 2, 5000, 3, 17});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CausalCases, ::testing::ValuesIn(causal_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(CausalBias, AnyLengthAndPosition) {
  const TssaCase c{"bias", 2, 70, 3, 8};
  for (const Surroundings& around : {Surroundings{0, 0},
                                     {1, 0},
                                     {70, 0},
                                     {200, 0},
                                     {200, 150},
                                     {200, 199},
                                     {200, 200},
                                     {3, 1000}}) {
    SCOPED_TRACE(::testing::Message() << around.bias_length << " from " << around.position);
    check(c, around, torch::kFloat32);
  }
}

TEST(CausalRange, HugeValuesStayFinite) {
  for (const double scale : {1e10, 1e15, 1e17}) {
    const CausalInputs in = inputs_of({"huge", 2, 40, 3, 8, scale}, {40}, torch::kFloat32);
    const auto found = run(tssa_causal, in);
    const auto exact = run(tssa_causal_plain, in.to(torch::kFloat64));
    EXPECT_LE(error_of(found.y, exact.y), 1e-5 * exact.y.abs().max().item<double>()) << scale;
    EXPECT_LE(error_of(found.pi, exact.pi), 1e-5) << scale;
    for (const Tensor& x : {found.grad_w, found.grad_temp, found.grad_bias})
      EXPECT_TRUE(torch::isfinite(x).all().item<bool>()) << scale;
  }
  // Energies beyond float32 become infinite.
  const auto w = torch::full({1, 40, 6}, 1.5e19f);
  const auto [y, pi, state] = tssa_causal(w, torch::ones({2, 1}), torch::zeros({2, 0, 1}));
  EXPECT_TRUE(torch::isfinite(y).all().item<bool>() && torch::isfinite(pi).all().item<bool>());
}

TEST(CausalRange, NaNReachesItsTokenAndAllLaterOnes) {
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    auto w = torch::randn({2, 100, 24});
    w[0][37][5] = std::numeric_limits<float>::quiet_NaN();
    const auto temp = torch::ones({3, 1}), bias = torch::zeros({3, 4, 1});
    const auto [y, pi, state] = tssa_causal(w, temp, bias);
    EXPECT_TRUE(torch::isfinite(y[0].slice(0, 0, 37)).all().item<bool>()) << isa;
    EXPECT_TRUE(torch::isnan(y[0].slice(0, 37)).all().item<bool>()) << isa;
    EXPECT_TRUE(torch::isnan(pi[0].slice(1, 37)).all().item<bool>()) << isa;
    EXPECT_TRUE(torch::isfinite(y[1]).all().item<bool>()) << isa;
    const auto [y2, pi2, state2] = tssa_causal(torch::randn({1, 3, 24}), temp * NAN, bias);
    EXPECT_TRUE(torch::isnan(y2).all().item<bool>()) << isa;
  }
  kernels::force_isa("auto");
}

TEST(CausalRange, Identities) {
  const auto w = torch::rand({2, 37, 40}) + 0.1;
  const auto temp = torch::rand({5, 1}) * 4;
  const auto [y, pi, state] = tssa_causal(w, temp, torch::zeros({5, 37, 1}));
  EXPECT_TRUE(torch::allclose(pi.sum(1), torch::ones({2, 37}), 0, 1e-6));
  // At the first token every q / E is 1, so the logit is P temp.
  const auto first = torch::softmax(8 * temp.view({5}), 0).expand({2, 5});
  EXPECT_TRUE(torch::allclose(pi.select(2, 0), first, 1e-5, 1e-6));
  // There N' is Pi and S is q.
  const auto expected =
      -(w.select(1, 0) / (1 + w.select(1, 0).square())) * first.repeat_interleave(8, 1);
  EXPECT_TRUE(torch::allclose(y.select(1, 0), expected, 1e-4, 1e-6));
}

}  // namespace tssa_causal_test
}  // namespace tost
