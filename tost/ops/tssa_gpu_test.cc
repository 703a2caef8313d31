// The operators on a GPU over the case table of the CPU, against the plain form in float64 there.
// What is allowed is a multiple of the error that the plain form itself makes in the same dtype.
#include <gtest/gtest.h>

#include "tost/ops/device.h"
#include "tost/ops/tssa.h"
#include "tost/ops/tssa_cases_test_util.h"
#include "tost/ops/tssa_causal.h"
#include "tost/testing/stand_in_gpu.h"

namespace tost {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// With the memory around it, so that strides and addresses stay what they are.
Tensor placed(const Tensor& x, c10::Device device) {
  const int64_t all = int64_t(x.storage().nbytes() / x.element_size());
  auto whole = torch::empty({0}, x.options()).set_(x.storage(), 0, {all}, {1});
  return whole.to(device).as_strided(x.sizes(), x.strides(), x.storage_offset());
}

struct Inputs {
  Tensor w, temp, bias, grad_y, grad_pi;
  std::optional<Tensor> lengths, state;
  int64_t position = 0;

  Inputs on(c10::Device device) const {
    Inputs other = *this;
    for (Tensor* x : {&other.w, &other.temp, &other.bias, &other.grad_y, &other.grad_pi}) {
      if (x->defined()) *x = placed(*x, device);
    }
    if (lengths) other.lengths = lengths->to(device);
    if (state) other.state = state->to(device);
    return other;
  }
  Inputs in(torch::ScalarType dtype) const {
    Inputs other = *this;
    for (Tensor* x : {&other.w, &other.temp, &other.bias, &other.grad_y, &other.grad_pi}) {
      if (x->defined()) *x = x->to(dtype);
    }
    return other;
  }
};

Inputs inputs_of(const TssaCase& c, torch::ScalarType dtype, bool causal, bool state) {
  Inputs in;
  in.w = tssa_case_tokens(c, dtype, 1);
  in.temp = tssa_case_temp(c);
  TssaCase unit = c;
  unit.scale = 1, unit.zero_channels = 0, unit.lengths.clear();
  in.grad_y = tssa_case_tokens(unit, dtype, 2);
  in.grad_pi =
      torch::linspace(-1, 1, c.batch * c.heads * c.tokens).view({c.batch, c.heads, c.tokens});
  in.lengths = tssa_case_lengths(c);
  if (!causal) return in;
  in.bias = torch::linspace(-0.1, 0.2, c.heads * 9).view({c.heads, 9, 1});
  if (!state) return in;
  const auto before =
      tssa_case_tokens({"before", c.batch, 20, c.heads, c.width, c.scale}, torch::kFloat64, 3);
  in.state = std::get<2>(
      tssa_causal_plain(before, in.temp.to(torch::kFloat64), in.bias.to(torch::kFloat64)));
  in.position = 4;
  return in;
}

// y, pi and the gradients of w and temp, and of causal calls the state and the gradient of bias.
// Gradients flow through both outputs.
Tensors run(const Inputs& in, bool plain) {
  const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(); };
  const auto w = leaf(in.w), temp = leaf(in.temp.clone());
  const auto grads = [&](const Tensor& y, const Tensor& pi, const Tensors& of) {
    return torch::autograd::grad({y, pi}, of,
                                 {in.grad_y.to(y.scalar_type()), in.grad_pi.to(pi.scalar_type())});
  };
  if (!in.bias.defined()) {
    const auto [y, pi] = (plain ? tssa_plain : tssa)(w, temp, in.lengths);
    const auto g = grads(y, pi, {w, temp});
    return {y.detach(), pi.detach(), g[0], g[1]};
  }
  const auto bias = leaf(in.bias.clone());
  const auto [y, pi, state] =
      (plain ? tssa_causal_plain : tssa_causal)(w, temp, bias, in.state, in.position);
  const auto g = grads(y, pi, {w, temp, bias});
  return {y.detach(), pi.detach(), g[0], g[1], state, g[2]};
}

double error_of(const Tensor& found, const Tensor& exact) {
  return found.numel() == 0 ? 0 : (found.to(torch::kDouble) - exact).abs().max().item<double>();
}

void expect_close(const TssaCase& c, const Inputs& in, const Tensors& exact, const Tensors& plain,
                  const Tensors& found) {
  const std::vector<std::string> names{"y", "pi", "grad_w", "grad_temp", "state", "grad_bias"};
  // Gradients of temp and bias are sums of terms that cancel; they are as large as g y and Pi.
  const double terms =
      ((in.grad_y.to(torch::kDouble) * exact[0]).abs().sum() + (in.grad_pi * exact[1]).abs().sum())
          .item<double>();
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), exact[i].sizes()) << names[i];
    ASSERT_TRUE(torch::isfinite(found[i]).all().item<bool>()) << names[i];
    const double largest = exact[i].numel() == 0 ? 0 : exact[i].abs().max().item<double>();
    const double floor = i == 3 || i == 5 ? 3e-7 * double(c.width) * (1 + terms) : 0;
    EXPECT_LE(error_of(found[i], exact[i]),
              3 * error_of(plain[i], exact[i]) + 1e-6 * largest + floor)
        << names[i] << ", largest value " << largest;
  }
}

bool halves() {
  return built_with_cuda();  // what stands in for a GPU computes as the CPU, which has none
}

void check(const TssaCase& c, c10::Device device, bool causal, bool state = false) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16, torch::kFloat64}) {
    if (dtype == torch::kFloat16 && (!halves() || c.scale > 100)) continue;  // beyond its range
    SCOPED_TRACE(::testing::Message() << c << " " << dtype << (causal ? " causal" : ""));
    const Inputs in = inputs_of(c, dtype, causal, state).on(device);
    const Tensors exact = run(in.in(torch::kDouble), /*plain=*/true);
    const Tensors plain =
        dtype == torch::kFloat16 ? run(in.in(torch::kBFloat16), true) : run(in, /*plain=*/true);
    const Tensors found = run(in, /*plain=*/false), again = run(in, /*plain=*/false);
    EXPECT_EQ(found[0].scalar_type(), dtype);
    expect_close(c, in, exact, plain, found);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].device(), device);
      EXPECT_TRUE(torch::equal(found[i], again[i])) << "bits differ from run to run";
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<TssaCase>& info) {
  return info.param.name;
}

std::vector<TssaCase> whole_cases() {
  auto cases = tssa_cases();
  cases.push_back({"wide_token", 1, 70, 30, 64});
  cases.push_back({"wider_than_kernels", 1, 20, 3, 1500});
  cases.push_back({"many_samples", 300, 5, 2, 16});
  return cases;
}

std::vector<TssaCase> all_cases() {
  auto cases = whole_cases();
  cases.push_back({"many_parts", 1, 1200, 12, 64});  // one sample, cut for all multiprocessors
  for (const auto& c : tssa_ragged_cases()) cases.push_back(c);
  return cases;
}

class GpuTssa : public ::testing::TestWithParam<TssaCase> {};

TEST_P(GpuTssa, AgreesWithThePlainForm) {
  TOST_TEST_GPU(device);
  check(GetParam(), device, /*causal=*/false);
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuTssa, ::testing::ValuesIn(all_cases()), name_of);

class GpuCausal : public ::testing::TestWithParam<TssaCase> {};

TEST_P(GpuCausal, AgreesWithThePlainForm) {
  TOST_TEST_GPU(device);
  for (const bool state : {false, true}) check(GetParam(), device, /*causal=*/true, state);
}

TEST_P(GpuCausal, PiecesAndStepsAreTheWhole) {
  TOST_TEST_GPU(device);
  const TssaCase c = GetParam();
  const torch::NoGradGuard no_grad;
  const Inputs in = inputs_of(c, torch::kFloat32, true, false).on(device);
  const auto [whole, pi, end] = tssa_causal(in.w, in.temp, in.bias);
  std::optional<Tensor> state;
  Tensors pieces;
  for (int64_t t = 0, count = 0; t < c.tokens; t += count) {
    count = t % 3 == 0 ? 1 : std::min<int64_t>(5, c.tokens - t);
    auto [y, memberships, after] =
        tssa_causal(in.w.narrow(1, t, count), in.temp, in.bias, state, t);
    pieces.push_back(y);
    state = after;
  }
  const double size = std::max(whole.abs().max().item<double>(), 1e-30);
  EXPECT_LE(error_of(torch::cat(pieces, 1), whole.to(torch::kDouble)), 1e-5 * size);
  EXPECT_TRUE(torch::allclose(*state, end, 1e-5, 1e-30));
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuCausal, ::testing::ValuesIn(whole_cases()), name_of);

TEST(GpuOperators, TakeEmptyBatches) {
  TOST_TEST_GPU(device);
  const auto options = torch::TensorOptions(device);
  const auto w = torch::empty({0, 7, 8}, options), temp = torch::ones({2, 1}, options);
  EXPECT_EQ(std::get<0>(tssa(w, temp)).sizes(), w.sizes());
  EXPECT_EQ(std::get<0>(tssa_causal(w, temp, torch::zeros({2, 3, 1}, options))).sizes(), w.sizes());
}

TEST(GpuOperators, RefuseTensorsOfTwoDevices) {
  TOST_TEST_GPU(device);
  const auto w = torch::randn({1, 7, 8}, torch::TensorOptions(device));
  EXPECT_ANY_THROW(tssa(w, torch::ones({2, 1})));
  EXPECT_ANY_THROW(tssa_causal(w, torch::ones({2, 1}), torch::zeros({2, 3, 1})));
}

}  // namespace
}  // namespace tost
