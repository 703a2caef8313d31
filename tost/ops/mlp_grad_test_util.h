// What surrounds a block's products against torch in float64, on any device.
#pragma once

#include <gtest/gtest.h>

#include "tost/ops/mlp_grad.h"
#include "tost/torch.h"

namespace tost {

using torch::Tensor;

// Bounds for the largest error over the largest value, stored as float32 and as bfloat16.
inline double bound(torch::ScalarType type) {
  return type == torch::kFloat ? 3e-6 : 1.2e-2;
}
inline void expect_near(const Tensor& on_device, const Tensor& exact, torch::ScalarType type) {
  const Tensor found = on_device.cpu();
  ASSERT_EQ(found.sizes(), exact.sizes());
  const double size = std::max(1e-2, exact.abs().max().item<double>());
  EXPECT_LE((found.to(torch::kDouble) - exact).abs().max().item<double>(), bound(type) * size);
}

// Inputs are drawn on the CPU and moved to `device`.
inline void check_norm(at::Device device, torch::ScalarType type, int64_t rows, int64_t width) {
  const Tensor x = torch::randn({rows, width}) * 2 + 1, weight = torch::randn({width});
  const Tensor bias = torch::randn({width}), residual = torch::randn({rows, width});
  const Tensor grad = torch::randn({rows, width}).to(type);
  const Tensor dx = x.to(torch::kDouble).requires_grad_(true);
  const Tensor dw = weight.to(torch::kDouble).requires_grad_(true);
  const Tensor db = bias.to(torch::kDouble).requires_grad_(true);
  const Tensor y = torch::layer_norm(dx, {width}, dw, db, 1e-5);
  const auto exact = torch::autograd::grad({y}, {dx, dw, db}, {grad.to(torch::kDouble)});
  const Tensor own_x = x.to(device), own_weight = weight.to(device), own_grad = grad.to(device);
  Tensor mean, rstd;
  expect_near(branch::normed(own_x, own_weight, bias.to(device), 1e-5, type, &mean, &rstd),
              y.detach(), type);
  const auto found = branch::norm_gradients(own_grad, residual.to(device), own_x, mean, rstd,
                                            own_weight, /*with_bias=*/true);
  expect_near(found.x, exact[0] + residual, torch::kFloat);
  expect_near(found.weight, exact[1], torch::kFloat);
  expect_near(found.bias, exact[2], torch::kFloat);
  const auto alone = branch::norm_gradients(own_grad, {}, own_x, mean, rstd, own_weight, false);
  expect_near(alone.x.cpu() + residual, exact[0] + residual, torch::kFloat);
  EXPECT_FALSE(alone.bias.defined());
}

inline void check_gelu(at::Device device, torch::ScalarType type, int64_t rows, int64_t width) {
  for (const bool tanh : {false, true}) {
    const Tensor h = (4 * torch::randn({rows, width})).to(type), bias = torch::randn({width});
    const Tensor grad = torch::randn({rows, width}).to(type);
    const Tensor dh = h.to(torch::kDouble).requires_grad_(true);
    const Tensor y = torch::gelu(dh + bias, tanh ? "tanh" : "none");
    const auto exact = torch::autograd::grad({y}, {dh}, {grad.to(torch::kDouble)});
    const Tensor own_bias = bias.to(device);
    Tensor own = grad.to(device).clone(), again = h.to(device).clone();
    expect_near(branch::activated(again, own_bias, tanh), y.detach(), type);
    const Tensor sums = branch::back_through_gelu(again, own_bias, tanh, own, again);
    expect_near(own, exact[0], type);
    expect_near(again, y.detach(), type);
    expect_near(sums, exact[0].sum(0), torch::kFloat);
    const Tensor bare = h.to(torch::kDouble).requires_grad_(true);
    const Tensor z = torch::gelu(bare, tanh ? "tanh" : "none");
    const auto bare_exact = torch::autograd::grad({z}, {bare}, {grad.to(torch::kDouble)});
    Tensor bare_own = grad.to(device).clone(), kept = torch::empty_like(bare_own);
    EXPECT_FALSE(branch::back_through_gelu(h.to(device), {}, tanh, bare_own, kept).defined());
    expect_near(bare_own, bare_exact[0], type);
    expect_near(kept, z.detach(), type);
    expect_near(branch::activated(h.to(device), {}, tanh), z.detach(), type);
  }
}

inline void check_scaled_residual(at::Device device, torch::ScalarType type, int64_t rows,
                                  int64_t width) {
  const Tensor x = torch::randn({2 * rows, width}), gamma = torch::randn({width});
  const Tensor value = torch::randn({2 * rows, width}).to(type), bias = torch::randn({width});
  const Tensor keep = torch::tensor({0.0f, 2.0f});
  const Tensor factor = keep.repeat_interleave(rows).unsqueeze(1).to(torch::kDouble);
  const Tensor own_x = x.to(device), own_gamma = gamma.to(device), own_bias = bias.to(device);
  expect_near(branch::added(own_x, value.to(device), own_bias, own_gamma, keep.to(device)),
              x + factor * gamma * (value.to(torch::kDouble) + bias), torch::kFloat);
  expect_near(branch::added(own_x, value.to(device), {}, own_gamma, {}),
              x + gamma * value.to(torch::kDouble), torch::kFloat);
  branch::AddGradients add(own_x, keep.to(device), type);
  expect_near(add.kept, factor * x, type);
  expect_near(add.sums, (factor * x).sum(0), torch::kFloat);
  const Tensor a = torch::randn({2 * rows, 7}).to(type), weight = torch::randn({width, 7});
  const Tensor kept = add.kept.cpu().to(torch::kDouble), own_weight = weight.to(device);
  expect_near(add.of_input(own_weight, own_gamma),
              kept.mm(gamma.unsqueeze(1).to(torch::kDouble) * weight), type);
  add.of_parameters(a.to(device), own_weight, own_bias, own_gamma);
  const Tensor product = kept.t().mm(a.to(torch::kDouble));
  expect_near(add.weight, gamma.unsqueeze(1) * product, type);
  expect_near(add.gamma, (product * weight).sum(1) + bias * (factor * x).sum(0), type);
  expect_near(add.bias, gamma * (factor * x).sum(0), torch::kFloat);
  const branch::AddGradients whole(own_x, {}, torch::kFloat);
  EXPECT_TRUE(torch::equal(whole.kept, own_x));
}

}  // namespace tost
