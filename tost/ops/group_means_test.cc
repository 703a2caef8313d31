// The kernels of group means against the plain form in float64: values, gradients, states, every
// instruction set. What is allowed is a multiple of the error that the plain form itself makes.
#include "tost/ops/group_means.h"

#include "tost/kernels/isa.h"
#include "tost/ops/group_means_cases_test_util.h"
#include "tost/testing/errors.h"

namespace tost {
namespace group_means_test {

class MeansCases : public ::testing::TestWithParam<MeansCase> {};

TEST_P(MeansCases, AgreeWithThePlainFormOnEveryIsa) {
  const MeansCase& c = GetParam();
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto in = inputs_of(c, dtype), narrow = cast(in, dtype, c.sliced);
    const auto plain = run(group_means_plain, narrow), exact = run(group_means_plain, in);
    for (const auto& isa : kernels::supported_isas()) {
      SCOPED_TRACE(::testing::Message() << c << " " << dtype << " " << isa);
      kernels::force_isa(isa);
      expect_near(run(group_means, narrow), plain, exact);
    }
  }
  kernels::force_isa("auto");
}

TEST_P(MeansCases, ThreadsDoNotChangeABit) {
  const auto in = cast(inputs_of(GetParam(), torch::kFloat32), torch::kFloat32, false);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = run(group_means, in);
  at::set_num_threads(3);
  const auto many = run(group_means, in);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], many[i])) << i;
}

// Parts of a text one after another, single tokens among them, give what the whole gives, and so
// does the plain form from the same state.
TEST_P(MeansCases, PartsContinueTheWhole) {
  const MeansCase& c = GetParam();
  if (c.batch == 0 || c.from_end > 0) return;
  const auto in = cast(inputs_of(c, torch::kFloat32), torch::kFloat32, false);
  const auto part = [&](int64_t first, int64_t count) {
    const auto of = [&](const Tensor& x) { return x.defined() ? x.narrow(1, first, count) : x; };
    return MeansCall{of(in.call.base), of(in.call.values), of(in.call.gate), of(in.call.pi),
                     in.call.log_rates};
  };
  Tensor whole_sums, sums;
  const auto whole = group_means(in.call, in.scale, &whole_sums);
  std::vector<Tensor> parts{whole.narrow(1, 0, 0)};
  for (int64_t t = 0, size = 1; t < c.tokens; size = 2 * size + 1) {
    const int64_t count = std::min(size, c.tokens - t);
    Tensor plain_sums = sums;
    parts.push_back(group_means(part(t, count), in.scale, &sums));
    const auto plain = group_means_plain(part(t, count), in.scale, &plain_sums);
    const double largest = std::max(1.0, plain.abs().max().item<double>());
    EXPECT_LE(distance(parts.back(), plain), 1e-5 * largest) << t;
    t += count;
  }
  const auto joined = torch::cat(parts, 1);
  if (joined.numel() == 0) return;
  EXPECT_LE(distance(joined, whole), 1e-5 * std::max(1.0, whole.abs().max().item<double>()));
  EXPECT_LE(distance(sums, whole_sums),
            1e-6 * std::max(1.0, whole_sums.abs().max().item<double>()));
}

INSTANTIATE_TEST_SUITE_P(All, MeansCases, ::testing::ValuesIn(means_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(GroupMeansKernel, NaNReachesLaterTokensOfItsChannelAlone) {
  auto in = cast(inputs_of({"nan", 1, 90, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  in.call.values[0][70][3] = std::nan("");
  const auto nan = group_means(in.call, in.scale, nullptr).isnan();
  EXPECT_FALSE(nan.narrow(1, 0, 70).any().item<bool>());
  EXPECT_TRUE(nan.narrow(1, 70, 20).select(2, 3).all().item<bool>());
  EXPECT_EQ(nan.sum().item<int64_t>(), 20);
}

TEST(GroupMeansKernel, HeadsThatReadFromTheEndSeeLaterTokens) {
  auto in = cast(inputs_of({"ends", 1, 90, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  in.call.from_end = 1;
  in.call.values[0][70] = std::nan("");
  const auto nan = group_means(in.call, in.scale, nullptr).isnan();
  const auto first = nan.narrow(2, 0, 5), second = nan.narrow(2, 5, 5);
  EXPECT_FALSE(first.narrow(1, 0, 70).any().item<bool>());
  EXPECT_TRUE(first.narrow(1, 70, 20).all().item<bool>());
  EXPECT_TRUE(second.narrow(1, 0, 71).all().item<bool>());
  EXPECT_FALSE(second.narrow(1, 71, 19).any().item<bool>());
}

TEST(GroupMeansKernel, StatesAreRefusedWhereHeadsReadFromTheEnd) {
  auto in = cast(inputs_of({"ends", 2, 4, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  in.call.from_end = 1;
  Tensor sums;
  const auto message = testing::usage_error_of([&] { group_means(in.call, in.scale, &sums); });
  EXPECT_NE(message.find("from the end"), std::string::npos) << message;
}

TEST(GroupMeansKernel, StatesOfAnotherShapeAreRefused) {
  const auto in = cast(inputs_of({"state", 2, 4, 2, 5}, torch::kFloat32), torch::kFloat32, false);
  Tensor sums = torch::zeros({3, 2, 6}, torch::kDouble);
  const auto message = testing::usage_error_of([&] { group_means(in.call, in.scale, &sums); });
  EXPECT_NE(message.find("[2, 2, 6]"), std::string::npos) << message;
  EXPECT_NE(message.find("[3, 2, 6]"), std::string::npos) << message;
}

TEST(GroupMeansKernel, SecondDerivativesEqualThePlainForms) {
  MeansCase c{"second", 1, 6, 2, 4};
  c.from_end = 1;
  const auto second = [&](Means means) {
    auto in = cast(inputs_of(c, torch::kFloat32), torch::kFloat32, false);
    const auto values = in.call.values.requires_grad_();
    const auto first = torch::autograd::grad({means(in.call, in.scale, nullptr).square().sum()},
                                             {values}, {}, true, true)[0];
    return torch::autograd::grad({first.square().sum()}, {values})[0];
  };
  EXPECT_TRUE(torch::allclose(second(group_means), second(group_means_plain), 1e-3, 1e-4));
}

}  // namespace group_means_test
}  // namespace tost
