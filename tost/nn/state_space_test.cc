#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/testing/stand_in_gpu.h"
#include "tost/nn/mixer_ssm.h"

namespace tost {
namespace state_space_test {

using torch::Tensor;

std::shared_ptr<StateSpace> random_model(int64_t channels, bool bidirectional) {
  auto model = std::make_shared<StateSpace>(
      StateSpaceShape{.channels = channels, .states = 5, .bidirectional = bidirectional});
  model->draw_weights();
  const torch::NoGradGuard no_grad;
  model->d.normal_();
  model->log_a_real.add_(torch::randn_like(model->log_a_real) * 0.3);
  return model;
}

// One direction of the definition, written out token by token. x [B, T, C] → [B, T, C, N] states.
Tensor recurrence(const Tensor& x, const Tensor& a, const Tensor& b) {
  auto s = torch::zeros({x.size(0), x.size(2), a.size(1)}, a.options());
  std::vector<Tensor> all;
  for (int64_t t = 0; t < x.size(1); ++t) {
    s = a * s + b * x.select(1, t).unsqueeze(2);
    all.push_back(s);
  }
  return torch::stack(all, 1);
}

// The definition in the header, in the dtype of x.
Tensor plain(const StateSpace& m, const Tensor& x) {
  const auto dtype = x.scalar_type();
  const auto rates = torch::complex(-m.log_a_real.to(dtype).exp(), m.a_imag.to(dtype));
  const auto dt = m.log_dt.to(dtype).exp().unsqueeze(1);
  const auto a = (dt * rates).exp(), b = (a - 1) / rates;
  const auto read = [&](const Tensor& states, int64_t direction) {
    return 2 * torch::real((torch::view_as_complex(m.c[direction].to(dtype)) * states).sum(-1));
  };
  auto y = read(recurrence(x, a, b), 0) + m.d.to(dtype) * x;
  if (m.c.size(0) > 1 && x.size(1) > 1) {
    const auto behind = recurrence(x.flip(1), a, b).flip(1).narrow(1, 1, x.size(1) - 1);
    y = torch::cat({y.narrow(1, 0, x.size(1) - 1) + read(behind, 1), y.narrow(1, x.size(1) - 1, 1)},
                   1);
  }
  return y.permute({2, 0, 1});
}

double error(const Tensor& found, const Tensor& exact) {
  return (found.to(torch::kDouble) - exact).abs().max().item<double>() /
         std::max(exact.abs().max().item<double>(), 1e-300);
}

// Value and every gradient, in the dtype of x.
using Form = Tensor (*)(const StateSpace&, const Tensor&);
std::vector<Tensor> value_and_gradients(StateSpace& m, Form form, const Tensor& x,
                                        const Tensor& grad) {
  const auto input = x.detach().clone().requires_grad_();
  auto wanted = std::vector<Tensor>{input};
  for (const auto& p : m.parameters()) wanted.push_back(p);
  const auto y = form(m, input);
  auto all = torch::autograd::grad({y}, wanted, {grad.to(y.scalar_type())});
  all.insert(all.begin(), y.detach());
  return all;
}

Tensor chunked(const StateSpace& m, const Tensor& x) {
  return m.forward(x);
}

class StateSpaceLengths : public ::testing::TestWithParam<int64_t> {};

// In float64 all but equal; in float32 no worse than a few times the recurrence itself.
TEST_P(StateSpaceLengths, ValueAndGradientsAreThoseOfTheRecurrence) {
  torch::manual_seed(1);
  for (const bool both : {false, true}) {
    const auto model = random_model(4, both);
    const auto x = torch::randn({2, GetParam(), 4}, torch::kDouble);
    const auto grad = torch::randn({4, 2, GetParam()}, torch::kDouble);
    const auto exact = value_and_gradients(*model, plain, x, grad);
    const auto wide = value_and_gradients(*model, chunked, x, grad);
    const auto narrow = value_and_gradients(*model, chunked, x.to(torch::kFloat), grad);
    const auto reference = value_and_gradients(*model, plain, x.to(torch::kFloat), grad);
    for (size_t i = 0; i < exact.size(); ++i) {
      // Parameters and their gradients are float32.
      EXPECT_LE(error(wide[i], exact[i]), i < 2 ? 1e-11 : 2e-7) << i << (both ? " both" : "");
      EXPECT_LE(error(narrow[i], exact[i]), 3 * error(reference[i], exact[i]) + 1e-6)
          << i << (both ? " both" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tokens, StateSpaceLengths,
                         ::testing::Values(1, 2, 3, 17, 31, 32, 33, 127, 257, 700));

TEST(StateSpace, AThousandChunksStayWithTheRecurrence) {
  torch::manual_seed(2);
  const torch::NoGradGuard no_grad;
  const auto model = random_model(2, true);
  const auto x = torch::randn({1, 10'007, 2}, torch::kDouble);
  const auto exact = plain(*model, x);
  EXPECT_LE(error(model->forward(x), exact), 1e-11);
  EXPECT_LE(error(model->forward(x.to(torch::kFloat)), exact), 2e-6);
}

// More tokens in all take longer chunks.
TEST(StateSpace, EveryLengthOfChunkGivesTheRecurrence) {
  torch::manual_seed(9);
  const auto model = random_model(2, true);
  for (const int64_t batch : {2, 100, 350}) {
    const auto x = torch::randn({batch, 129, 2}, torch::kDouble);
    const auto grad = torch::randn({2, batch, 129}, torch::kDouble);
    const auto exact = value_and_gradients(*model, plain, x, grad);
    const auto wide = value_and_gradients(*model, chunked, x, grad);
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_LE(error(wide[i], exact[i]), i < 2 ? 1e-11 : 2e-7) << i << " of batch " << batch;
    }
  }
}

TEST(StateSpace, WithoutGradientsTheValueIsTheSame) {
  torch::manual_seed(10);
  const auto model = random_model(150, true);  // three groups of channels
  const auto x = torch::randn({2, 3601, 150});
  const auto y = model->forward(x);
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::allclose(model->forward(x), y, 1e-5, 1e-6));
}

TEST(StateSpace, HugeAndTinyInputScalesTheOutput) {
  torch::manual_seed(3);
  const torch::NoGradGuard no_grad;
  const auto model = random_model(3, true);
  const auto x = torch::randn({1, 400, 3});
  const auto y = model->forward(x);
  for (const double power : {-100.0, 100.0}) {
    const double scale = std::exp2(power);  // exact in float32
    EXPECT_LE(error(model->forward(x * scale) / scale, y.to(torch::kDouble)), 1e-6) << power;
  }
}

TEST(StateSpace, ExtremeStepsAndRatesStayFinite) {
  torch::manual_seed(4);
  for (const double log_dt : {-1e30, -40.0, -16.0, 0.0, 8.0, 40.0, 1e30}) {
    for (const double log_rate : {-1e30, -15.0, 0.0, 15.0, 1e30}) {
      const auto model = random_model(3, true);
      {
        const torch::NoGradGuard no_grad;
        model->log_dt.fill_(log_dt);
        model->log_a_real.fill_(log_rate);
      }
      const auto x = torch::randn({2, 300, 3}).requires_grad_();
      const auto y = model->forward(x);
      EXPECT_TRUE(y.isfinite().all().item<bool>()) << log_dt << " " << log_rate;
      y.sum().backward();
      EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << log_dt << " " << log_rate;
      for (const auto& p : model->named_parameters()) {
        EXPECT_TRUE(p.value().grad().isfinite().all().item<bool>()) << p.key() << " " << log_dt;
      }
    }
  }
}

// With a step of 1e-6 a state is all but the sum of its inputs; cancellation in a - 1 would show.
TEST(StateSpace, SmallStepsKeepTheirPrecision) {
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  const auto model = random_model(2, false);
  model->log_dt.fill_(std::log(1e-6));
  model->d.zero_();
  const auto x = torch::randn({1, 300, 2});
  EXPECT_LE(error(model->forward(x), plain(*model, x.to(torch::kDouble))), 1e-6);
}

TEST(StateSpace, StatesGoOnWhereTheyEnded) {
  torch::manual_seed(6);
  const torch::NoGradGuard no_grad;
  const auto model = random_model(3, false);
  const auto x = torch::randn({2, 700, 3}, torch::kDouble);
  const auto whole = model->forward(x);
  for (const std::vector<int64_t>& cut :
       {std::vector<int64_t>{700}, {1, 1, 300, 398}, {128, 256, 316}, {699, 1}, {0, 700}}) {
    Tensor state;
    int64_t t = 0;
    for (const int64_t count : cut) {
      const auto part = model->forward(x.narrow(1, t, count), &state);
      EXPECT_TRUE(torch::allclose(part, whole.narrow(2, t, count), 1e-10, 1e-12)) << t;
      t += count;
    }
    EXPECT_EQ(state.sizes(), torch::IntArrayRef({2, 3, 10}));
  }
}

TEST(StateSpace, AutocastLeavesTheScanAlone) {
  torch::manual_seed(7);
  const auto model = random_model(3, true);
  const auto x = torch::randn({1, 500, 3});
  const auto y = model->forward(x);
  const testing::Bfloat16Autocast autocast;
  EXPECT_TRUE(torch::equal(model->forward(x), y));
}

TEST(StatesBefore, MatchTheSumOverEarlierChunks) {
  torch::manual_seed(8);
  const auto rate =
      torch::complex(-torch::rand({2, 3}, torch::kDouble), torch::randn({2, 3}, torch::kDouble));
  for (int64_t chunks = 1; chunks <= 19; ++chunks) {
    const auto ends = torch::randn({2, 2, chunks, 3}, torch::kComplexDouble);
    const auto found = states_before(ends, rate);
    auto s = torch::zeros({2, 2, 3}, torch::kComplexDouble);
    for (int64_t m = 0; m < chunks; ++m) {
      EXPECT_TRUE(torch::allclose(found.select(2, m), s, 1e-12, 1e-12)) << m << " of " << chunks;
      s = rate.exp().unsqueeze(1) * s + ends.select(2, m);
    }
  }
}

}  // namespace state_space_test
}  // namespace tost
