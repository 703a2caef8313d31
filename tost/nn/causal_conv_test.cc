#include <gtest/gtest.h>

#include "tost/nn/causal_mixer.h"

namespace tost {
namespace causal_conv_test {

using torch::Tensor;

TEST(CausalConv, IsTorchsDepthwiseConvolutionOfThePaddedTokens) {
  for (const int64_t taps : {1, 4, 7}) {
    torch::manual_seed(3);
    const CausalConv conv(6, taps);
    const auto x = torch::randn({2, 5, 6}).requires_grad_();
    const auto run = [&](const Tensor& y) {
      auto all = torch::autograd::grad({y.cos().sum()}, {x, conv.weight});
      all.push_back(y.detach());
      return all;
    };
    const auto found = run(conv.forward(x));
    const auto padded = torch::constant_pad_nd(x.transpose(1, 2), {taps - 1, 0});
    const auto wanted =
        run(torch::conv1d(padded, conv.weight.t().unsqueeze(1), Tensor(), torch::IntArrayRef{1},
                          torch::IntArrayRef{0}, torch::IntArrayRef{1}, 6)
                .transpose(1, 2));
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_TRUE(torch::allclose(found[i], wanted[i], 1e-5, 1e-6)) << taps << " " << i;
    }
  }
}

TEST(CausalConv, PartsContinueTheWholeBitForBit) {
  const torch::NoGradGuard no_grad;
  for (const int64_t taps : {1, 4, 7}) {
    const CausalConv conv(6, taps);
    const auto x = torch::randn({2, 30, 6}), whole = conv.forward(x);
    Tensor past;
    for (int64_t t = 0, size = 1; t < 30; t += size++) {
      const int64_t count = std::min<int64_t>(size, 30 - t);
      const auto part = conv.forward(x.narrow(1, t, count), &past);
      EXPECT_TRUE(torch::equal(part, whole.narrow(1, t, count))) << taps << " " << t;
    }
  }
}

}  // namespace causal_conv_test
}  // namespace tost
