// Running sums of sequences whose tokens lie on several processes.
#include <gtest/gtest.h>

#include "tost/comm/processes_test_util.h"
#include "tost/comm/sums.h"
#include "tost/nn/token_sums_scope.h"

namespace tost {
namespace {

using torch::Tensor;

class SplitRunningSums : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, SplitRunningSums, ::testing::Values(2, 4));

TEST_P(SplitRunningSums, AreThoseOfOneProcess) {
  testing::in_processes({.world = GetParam()}, [](Group& group) {
    constexpr int64_t kTokens = 300;
    const int64_t begin = kTokens * group.rank() / group.world();
    const int64_t count = kTokens * (group.rank() + 1) / group.world() - begin;
    for (const bool decays : {true, false}) {
      torch::manual_seed(5);
      const Tensor x = torch::randn({2, kTokens, 3, 5}, torch::kDouble);
      const Tensor out = torch::randn_like(x);
      const Tensor rate =
          decays ? torch::tensor({-0.7, -0.05, -0.004}, torch::kDouble).requires_grad_() : Tensor();
      const auto gradients = [&](const Tensor& y, const Tensor& in, const Tensor& to) {
        std::vector<Tensor> inputs{in};
        if (decays) inputs.push_back(rate);
        return torch::autograd::grad({(y * to).sum()}, inputs);
      };
      const Tensor whole = x.clone().requires_grad_();
      const Tensor expected = running_sums(whole, rate);
      const auto wanted = gradients(expected, whole, out);

      const Tensor local = x.narrow(1, begin, count).clone().requires_grad_();
      const TokenSums sums = token_sums(group);
      const TokenSumsScope scope(&sums);
      const Tensor got = running_sums(local, rate);
      auto found = gradients(got, local, out.narrow(1, begin, count));
      const auto near = [](const Tensor& a, const Tensor& b) {
        return ((a - b).abs().max() / b.abs().max()).item<double>() < 1e-13;
      };
      EXPECT_TRUE(near(got, expected.narrow(1, begin, count)));
      EXPECT_TRUE(near(found[0], wanted[0].narrow(1, begin, count)));
      if (!decays) continue;
      group.sum(found[1]);
      EXPECT_TRUE(near(found[1], wanted[1]));
    }
  });
}

}  // namespace
}  // namespace tost
