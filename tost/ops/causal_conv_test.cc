// The kernel of the causal convolution against its plain form in float64.
#include "tost/ops/causal_conv.h"

#include <gtest/gtest.h>

#include "tost/kernels/isa.h"
#include "tost/torch.h"

namespace tost {
namespace causal_conv_test {

using torch::Tensor;

struct ConvCase {
  std::string name;
  int64_t batch, tokens, channels, taps;
  bool past = false, sliced = false;
};

std::vector<ConvCase> conv_cases() {
  std::vector<ConvCase> cases{{"model", 2, 130, 48, 4, false, true},
                              {"past", 2, 70, 16, 4, true},
                              {"one_token", 3, 1, 16, 4},
                              {"one_token_past", 3, 1, 16, 4, true},
                              {"one_tap", 2, 5, 8, 1},
                              {"more_taps_than_tokens", 1, 3, 8, 7, true},
                              {"many_taps", 1, 80, 8, 16},
                              {"beyond_the_kernel", 1, 20, 8, 17},
                              {"empty", 2, 0, 8, 4},
                              {"no_batch", 0, 4, 8, 4},
                              {"long", 1, 1500, 8, 3}};
  for (const int64_t channels : {1, 3, 7, 9, 15, 17, 31, 33, 65}) {
    cases.push_back({"c" + std::to_string(channels), 2, 9, channels, 4, true});
  }
  return cases;
}

// y and the gradients of x and weight.
std::vector<Tensor> run(const ConvCase& c, const Tensor& x, const Tensor& weight,
                        const Tensor& past, bool fused) {
  const auto x_leaf = x.detach().requires_grad_(), weight_leaf = weight.detach().requires_grad_();
  const auto y = (fused ? causal_conv : causal_conv_plain)(x_leaf, weight_leaf, past);
  const auto grad = torch::arange(y.numel()).view(y.sizes()).cos().to(y.scalar_type());
  const auto grads = torch::autograd::grad({y}, {x_leaf, weight_leaf}, {grad});
  return {y.detach(), grads[0], grads[1]};
}

void check(const ConvCase& c, torch::ScalarType dtype) {
  SCOPED_TRACE(::testing::Message() << c.name << " " << dtype << " " << kernels::current_isa());
  torch::manual_seed(3);
  const int64_t wide = c.sliced ? 3 * c.channels : c.channels;
  const auto x = torch::randn({c.batch, c.tokens, wide}).to(dtype).narrow(2, 0, c.channels);
  const auto weight = torch::randn({c.taps, c.channels});
  const auto past = c.past ? torch::randn({c.batch, c.taps - 1, c.channels}).to(dtype) : Tensor();
  const auto found = run(c, x, weight, past, true), plain = run(c, x, weight, past, false);
  const auto exact = run(c, x.to(torch::kDouble), weight.to(torch::kDouble),
                         past.defined() ? past.to(torch::kDouble) : past, false);
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), exact[i].sizes()) << i;
    if (exact[i].numel() == 0) continue;
    const auto error = [&](const Tensor& y) {
      return (y.to(torch::kDouble) - exact[i]).abs().max().item<double>();
    };
    // The gradients that are compared come from cosines rounded to the dtype.
    const double largest = exact[i].abs().max().item<double>();
    EXPECT_LE(error(found[i]), 2 * error(plain[i]) + 2e-6 * largest) << i;
  }
}

class ConvCases : public ::testing::TestWithParam<ConvCase> {};

TEST_P(ConvCases, AgreeWithThePlainFormOnEveryIsa) {
  for (const auto& isa : kernels::supported_isas()) {
    kernels::force_isa(isa);
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) check(GetParam(), dtype);
  }
  kernels::force_isa("auto");
}

TEST_P(ConvCases, ThreadsDoNotChangeABitAndPartsContinueTheWhole) {
  const ConvCase& c = GetParam();
  torch::manual_seed(4);
  const auto x = torch::randn({c.batch, c.tokens, c.channels}),
             weight = torch::randn({c.taps, c.channels});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = run(c, x, weight, {}, true);
  at::set_num_threads(3);
  const auto many = run(c, x, weight, {}, true);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], many[i])) << i;
  const torch::NoGradGuard no_grad;
  Tensor past = torch::zeros({c.batch, c.taps - 1, c.channels});
  for (int64_t t = 0, size = 1; t < c.tokens; t += size++) {
    const int64_t count = std::min(size, c.tokens - t);
    const auto part = causal_conv(x.narrow(1, t, count), weight, past);
    past = torch::cat({past, x.narrow(1, t, count)}, 1).narrow(1, count, c.taps - 1);
    EXPECT_TRUE(torch::equal(part, one[0].narrow(1, t, count))) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConvCases, ::testing::ValuesIn(conv_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace causal_conv_test
}  // namespace tost
