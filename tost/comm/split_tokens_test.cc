#include <gtest/gtest.h>

#include <cstdio>

#include "tost/comm/processes_test_util.h"
#include "tost/comm/sums.h"
#include "tost/ops/plain.h"

namespace tost {
namespace {

using testing::in_processes;
using torch::Tensor;

constexpr int64_t kHeads = 3, kWidth = 8;

// Tokens of one process: the first has the fewest.
struct Part {
  int64_t begin = 0, count = 0;
};

Part part_of(const Group& group, int64_t tokens) {
  const int64_t w = group.world(), r = group.rank(), units = w * (w + 1) / 2;
  const auto end = [&](int64_t i) { return i == w ? tokens : tokens * (i * (i + 1) / 2) / units; };
  return {end(r), end(r + 1) - end(r)};
}

double deviation(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-300)).item<double>();
}

struct Case {
  Tensor w, temp, bias, out;
};

Case make_case(int64_t tokens, torch::Dtype dtype) {
  torch::manual_seed(3);
  return {torch::randn({2, tokens, kHeads * kWidth}, dtype), torch::rand({kHeads, 1}, dtype) + 0.5,
          torch::randn({kHeads, tokens / 2, 1}, dtype) * 0.1,
          torch::randn({2, tokens, kHeads * kWidth}, dtype)};
}

// y and the gradients of w, temp and, if causal, bias. `sums`: of the part's tokens alone.
std::vector<Tensor> run(const Case& test_case, bool causal, Part part, const TokenSums* sums) {
  const auto cut = [&](const Tensor& x) {
    return x.narrow(1, part.begin, part.count).contiguous();
  };
  const Tensor w = cut(test_case.w).requires_grad_();
  const Tensor temp = test_case.temp.clone().requires_grad_();
  const Tensor bias = test_case.bias.clone().requires_grad_();
  const Tensor y = causal ? std::get<0>(tssa_causal_plain_part(w, temp, bias, {}, part.begin, sums))
                          : std::get<0>(tssa_plain_part(w, temp, {}, sums));
  std::vector<Tensor> inputs{w, temp};
  if (causal) inputs.push_back(bias);
  std::vector<Tensor> all =
      torch::autograd::grad({(y * cut(test_case.out)).sum()}, inputs, {}, {}, false,
                            /*allow_unused=*/true);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined()) all[i] = torch::zeros_like(inputs[i]);
  }
  all.insert(all.begin(), y.detach());
  return all;
}

class Split : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, Split, ::testing::Values(2, 4));

TEST_P(Split, OperatorsAreThoseOfOneProcess) {
  in_processes({.world = GetParam()}, [](Group& group) {
    for (const auto& [dtype, bound] : {std::pair{torch::kDouble, 1e-14}, {torch::kFloat, 2e-6}}) {
      for (const bool causal : {false, true}) {
        const Case test_case = make_case(50, dtype);
        const Part part = part_of(group, 50);
        const auto whole = run(test_case, causal, {0, 50}, nullptr);
        const TokenSums sums = token_sums(group);
        auto got = run(test_case, causal, part, &sums);
        const auto local = [&](const Tensor& x) { return x.narrow(1, part.begin, part.count); };
        for (size_t i = 2; i < got.size(); ++i) group.sum(got[i]);
        EXPECT_LT(deviation(got[0], local(whole[0])), bound) << causal;
        EXPECT_LT(deviation(got[1], local(whole[1])), bound) << causal;
        for (size_t i = 2; i < got.size(); ++i)
          EXPECT_LT(deviation(got[i], whole[i]), bound) << causal;
      }
    }
  });
}

TEST_P(Split, MessagesDoNotGrowWithTheSequence) {
  in_processes({.world = GetParam()}, [](Group& group) {
    std::vector<int64_t> bytes[2];
    for (const int64_t tokens : {1 << 10, 1 << 13, 1 << 16}) {
      for (const bool causal : {false, true}) {
        const Case test_case = make_case(tokens, torch::kFloat);
        const Part part = part_of(group, tokens);
        const TokenSums sums = token_sums(group);
        const int64_t before = group.sent();
        run(test_case, causal, part, &sums);
        bytes[causal].push_back((group.sent() - before) / 2);  // a sample
        if (group.first()) {
          std::printf("%8lld tokens, %s: %lld bytes a sample, forward and backward\n",
                      static_cast<long long>(tokens), causal ? "causal" : "both directions",
                      static_cast<long long>(bytes[causal].back()));
        }
      }
    }
    for (const auto& of : bytes) EXPECT_EQ(of, std::vector<int64_t>(of.size(), of.front()));
  });
}

}  // namespace
}  // namespace tost
