// Values and gradients of whole branches are tested in nn/branch_test.cc; here every
// instruction set.
#include "tost/ops/mlp_grad.h"

#include <gtest/gtest.h>

#include "tost/kernels/isa.h"
#include "tost/ops/adamw_step.h"
#include "tost/torch.h"

namespace tost {
namespace {

using torch::Tensor;

// Bounds for the largest error over the largest value, stored as float32 and as bfloat16.
double bound(torch::ScalarType type) {
  return type == torch::kFloat ? 3e-6 : 1.2e-2;
}
void expect_near(const Tensor& found, const Tensor& exact, torch::ScalarType type) {
  ASSERT_EQ(found.sizes(), exact.sizes());
  const double size = std::max(1e-2, exact.abs().max().item<double>());
  EXPECT_LE((found.to(torch::kDouble) - exact).abs().max().item<double>(), bound(type) * size);
}

void check_norm(torch::ScalarType type, int64_t rows, int64_t width) {
  const Tensor x = torch::randn({rows, width}) * 2 + 1, weight = torch::randn({width});
  const Tensor bias = torch::randn({width}), residual = torch::randn({rows, width});
  const Tensor grad = torch::randn({rows, width}).to(type);
  const Tensor dx = x.to(torch::kDouble).requires_grad_(true);
  const Tensor dw = weight.to(torch::kDouble).requires_grad_(true);
  const Tensor db = bias.to(torch::kDouble).requires_grad_(true);
  const Tensor y = torch::layer_norm(dx, {width}, dw, db, 1e-5);
  const auto exact = torch::autograd::grad({y}, {dx, dw, db}, {grad.to(torch::kDouble)});
  Tensor mean, rstd;
  expect_near(branch::normed(x, weight, bias, 1e-5, type, &mean, &rstd), y.detach(), type);
  const auto found =
      branch::norm_gradients(grad, residual, x, mean, rstd, weight, /*with_bias=*/true);
  expect_near(found.x, exact[0] + residual, torch::kFloat);
  expect_near(found.weight, exact[1], torch::kFloat);
  expect_near(found.bias, exact[2], torch::kFloat);
  const auto single = branch::norm_gradients(grad, {}, x, mean, rstd, weight, false);
  expect_near(single.x + residual, exact[0] + residual, torch::kFloat);
  EXPECT_FALSE(single.bias.defined());
}

void check_gelu(torch::ScalarType type, int64_t rows, int64_t width) {
  for (const bool tanh : {false, true}) {
    const Tensor h = (4 * torch::randn({rows, width})).to(type), bias = torch::randn({width});
    const Tensor grad = torch::randn({rows, width}).to(type);
    const Tensor dh = h.to(torch::kDouble).requires_grad_(true);
    const Tensor y = torch::gelu(dh + bias, tanh ? "tanh" : "none");
    const auto exact = torch::autograd::grad({y}, {dh}, {grad.to(torch::kDouble)});
    Tensor grad_hidden = grad.clone(), again = h.clone();
    expect_near(branch::activated(again, bias, tanh), y.detach(), type);
    const Tensor sums = branch::back_through_gelu(again, bias, tanh, grad_hidden, again);
    expect_near(grad_hidden, exact[0], type);
    expect_near(again, y.detach(), type);
    expect_near(sums, exact[0].sum(0), torch::kFloat);
    const Tensor bare = h.to(torch::kDouble).requires_grad_(true);
    const Tensor z = torch::gelu(bare, tanh ? "tanh" : "none");
    const auto bare_exact = torch::autograd::grad({z}, {bare}, {grad.to(torch::kDouble)});
    Tensor bare_hidden = grad.clone(), masked = torch::empty_like(bare_hidden);
    EXPECT_FALSE(branch::back_through_gelu(h, {}, tanh, bare_hidden, masked).defined());
    expect_near(bare_hidden, bare_exact[0], type);
    expect_near(masked, z.detach(), type);
    expect_near(branch::activated(h, {}, tanh), z.detach(), type);
  }
}

void check_scaled_residual(torch::ScalarType type, int64_t rows, int64_t width) {
  const Tensor x = torch::randn({2 * rows, width}), gamma = torch::randn({width});
  const Tensor value = torch::randn({2 * rows, width}).to(type), bias = torch::randn({width});
  const Tensor keep = torch::tensor({0.0f, 2.0f});
  const Tensor factor = keep.repeat_interleave(rows).unsqueeze(1).to(torch::kDouble);
  expect_near(branch::added(x, value, bias, gamma, keep),
              x + factor * gamma * (value.to(torch::kDouble) + bias), torch::kFloat);
  expect_near(branch::added(x, value, {}, gamma, {}), x + gamma * value.to(torch::kDouble),
              torch::kFloat);
  branch::AddGradients add(x, keep, type);
  expect_near(add.masked, factor * x, type);
  expect_near(add.sums, (factor * x).sum(0), torch::kFloat);
  const Tensor a = torch::randn({2 * rows, 7}).to(type), weight = torch::randn({width, 7});
  const Tensor masked = add.masked.to(torch::kDouble);
  expect_near(add.of_input(weight, gamma),
              masked.mm(gamma.unsqueeze(1).to(torch::kDouble) * weight), type);
  add.of_parameters(a, weight, bias, gamma);
  const Tensor product = masked.t().mm(a.to(torch::kDouble));
  expect_near(add.weight, gamma.unsqueeze(1) * product, type);
  expect_near(add.gamma, (product * weight).sum(1) + bias * (factor * x).sum(0), type);
  expect_near(add.bias, gamma * (factor * x).sum(0), torch::kFloat);
  const branch::AddGradients whole(x, {}, torch::kFloat);
  EXPECT_TRUE(torch::equal(whole.masked, x));
}

template <class Check>
void on_every_instruction_set(const Check& check) {
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    torch::manual_seed(1);
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
      for (const auto& [rows, width] :
           {std::pair<int64_t, int64_t>{1, 3}, {3, 5}, {33, 16}, {70, 47}}) {
        SCOPED_TRACE(::testing::Message() << isa << " " << type << " " << rows << " x " << width);
        check(type, rows, width);
      }
    }
  }
  kernels::force_isa("auto");
}

TEST(MlpGrad, AgreesWithTorch) {
  on_every_instruction_set([](torch::ScalarType type, int64_t rows, int64_t width) {
    check_norm(type, rows, width);
    check_gelu(type, rows, width);
    check_scaled_residual(type, rows, width);
  });
}

TEST(MlpGrad, SumsDoNotDependOnThreads) {
  const Tensor grad = torch::randn({701, 45}), x = torch::randn({701, 45});
  const Tensor weight = torch::randn({45});
  std::vector<Tensor> one, two;
  const int before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    Tensor mean, rstd;
    branch::normed(x, weight, {}, 1e-5, torch::kFloat, &mean, &rstd);
    const auto norm = branch::norm_gradients(grad, grad, x, mean, rstd, weight, true);
    const branch::AddGradients add(grad, {}, torch::kFloat);
    std::vector<Tensor>& found = threads == 1 ? one : two;
    found = {norm.x, norm.weight, norm.bias, add.sums};
  }
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], two[i])) << i;
}

TEST(MlpGrad, RefusesRowsThatDoNotFit) {
  const Tensor x = torch::ones({4, 6}), weight = torch::ones({6});
  EXPECT_THROW(branch::normed(x.t(), weight, {}, 1e-5, torch::kFloat), c10::Error);
  EXPECT_THROW(branch::normed(x, weight.narrow(0, 0, 5), {}, 1e-5, torch::kFloat), c10::Error);
  EXPECT_THROW(branch::normed(x, weight, {}, 1e-5, torch::kHalf), c10::Error);
  EXPECT_THROW(branch::added(x, x, {}, weight, torch::ones({3})), c10::Error);
}

TEST(AdamWStep, AgreesWithItsDefinition) {
  on_every_instruction_set([](torch::ScalarType type, int64_t rows, int64_t width) {
    const AdamWStep o{.lr = 0.01,
                      .beta1 = 0.8,
                      .beta2 = 0.9,
                      .eps = 1e-6,
                      .weight_decay = 0.3,
                      .gradient_scale = 0.5,
                      .step = 3};
    const Tensor p = torch::randn({rows, width}), m = torch::randn({rows, width});
    const Tensor v = torch::rand({rows, width}), gradient = torch::randn({rows, width}).to(type);
    const Tensor g = 0.5 * gradient.to(torch::kDouble);
    const Tensor m2 = 0.8 * m + 0.2 * g, v2 = 0.9 * v + 0.1 * g * g;
    const Tensor exact = p * (1 - 0.003) - 0.01 * (m2 / (1 - std::pow(0.8, 3))) /
                                               ((v2 / (1 - std::pow(0.9, 3))).sqrt() + 1e-6);
    const Tensor copy = torch::empty({rows, width}, torch::kBFloat16);
    EXPECT_NEAR(sum_of_squares(gradient), 4 * g.square().sum().item<double>(),
                1e-5 * 4 * g.square().sum().item<double>());
    adamw_step(o, p, m, v, copy, gradient);
    expect_near(p, exact, torch::kFloat);
    expect_near(m, m2, torch::kFloat);
    expect_near(v, v2, torch::kFloat);
    EXPECT_TRUE(torch::equal(copy, p.to(torch::kBFloat16)));
  });
}

// Every square and every sum is float64: small numbers next to a large one are not lost, and what
// float32 squares to infinity stays finite.
TEST(SumOfSquares, IsInFloat64) {
  on_every_instruction_set([](torch::ScalarType type, int64_t, int64_t) {
    for (const int64_t count : {1, 7, 31, 32, 33, 16384, 40000}) {
      Tensor x = torch::ones({count}, type);
      x[0] = 4096;
      EXPECT_EQ(sum_of_squares(x), 4096.0 * 4096 + double(count - 1)) << count;
      x[0] = std::ldexp(1.0, 100);
      EXPECT_EQ(sum_of_squares(x), std::ldexp(1.0, 200)) << count;
      x[count - 1] = std::numeric_limits<double>::quiet_NaN();
      EXPECT_TRUE(std::isnan(sum_of_squares(x))) << count;
    }
  });
}

// The first step moves by the learning rate, however near to one the factors are.
TEST(AdamWStep, KeepsTheDigitsOfFactorsNearOne) {
  for (const double beta : {0.9, 0.9999, 0.999999, 0.999999999}) {
    const Tensor p = torch::zeros({3, 5}), m = torch::zeros({3, 5}), v = torch::zeros({3, 5});
    const Tensor gradient = torch::full({3, 5}, 0.25),
                 copy = torch::empty({3, 5}, torch::kBFloat16);
    adamw_step({.lr = 0.01, .beta1 = beta, .beta2 = beta, .eps = 1e-12, .step = 1}, p, m, v, copy,
               gradient);
    EXPECT_TRUE(torch::allclose(p, torch::full({3, 5}, -0.01), 1e-6)) << beta;
  }
}

}  // namespace
}  // namespace tost
