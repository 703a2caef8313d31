// Group means on a GPU over the case table of the CPU, against the plain form in float64 there.
#include "tost/ops/device.h"
#include "tost/ops/group_means_cases_test_util.h"
#include "tost/testing/stand_in_gpu.h"

namespace tost {
namespace group_means_test {
namespace {

Inputs on(c10::Device device, Inputs in) {
  for (Tensor* x : {&in.call.base, &in.call.values, &in.call.gate, &in.call.pi, &in.call.log_rates,
                    &in.scale, &in.grad, &in.sums}) {
    if (x->defined()) *x = x->to(device);
  }
  return in;
}

class GpuMeans : public ::testing::TestWithParam<MeansCase> {};

TEST_P(GpuMeans, AgreeWithThePlainForm) {
  TOST_TEST_GPU(device);
  const MeansCase& c = GetParam();
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    // The stand-in computes as the CPU, which has none.
    if (dtype == torch::kFloat16 && (!built_with_cuda() || c.scale > 100)) continue;
    for (const bool state : {false, true}) {
      if (state && c.from_end > 0) continue;
      SCOPED_TRACE(::testing::Message() << c << " " << dtype << (state ? " with a state" : ""));
      const auto in = on(device, inputs_of(c, dtype, state)), narrow = cast(in, dtype, c.sliced);
      ASSERT_TRUE(has_fused_means(narrow.call));
      const auto found = run(group_means, narrow), again = run(group_means, narrow);
      expect_near(found, run(group_means_plain, narrow), run(group_means_plain, in), &in);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].device(), device);
        EXPECT_TRUE(torch::equal(found[i], again[i])) << "bits differ from run to run";
      }
    }
  }
}

TEST_P(GpuMeans, OfPartsContinueThoseOfTheWhole) {
  TOST_TEST_GPU(device);
  const MeansCase& c = GetParam();
  if (c.tokens == 0 || c.batch == 0 || c.from_end > 0) return;
  const auto in = cast(on(device, inputs_of(c, torch::kFloat32)), torch::kFloat32, c.sliced);
  Tensor whole_sums, sums;
  const auto whole = group_means(in.call, in.scale, &whole_sums);
  std::vector<Tensor> parts;
  for (int64_t t = 0, count = 0; t < c.tokens; t += count) {
    count = std::min<int64_t>(parts.size() % 3 == 2 ? 40 : 1, c.tokens - t);
    MeansCall part = in.call;
    for (Tensor* x : {&part.base, &part.values, &part.gate, &part.pi}) {
      if (x->defined()) *x = x->narrow(1, t, count);
    }
    parts.push_back(group_means(part, in.scale, &sums));
  }
  const auto limit = [](const Tensor& x) { return std::max(1.0, x.abs().max().item<double>()); };
  EXPECT_LE(distance(torch::cat(parts, 1), whole), 1e-5 * limit(whole));
  EXPECT_LE(distance(sums, whole_sums), 1e-6 * limit(whole_sums));
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuMeans, ::testing::ValuesIn(means_gpu_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(GpuMeansOperator, LeavesTheRestToAten) {
  TOST_TEST_GPU(device);
  const auto taken = [&](const MeansCase& c, torch::ScalarType dtype) {
    return has_fused_means(cast(on(device, inputs_of(c, dtype)), dtype, false).call);
  };
  EXPECT_FALSE(taken({"double", 1, 5, 2, 8}, torch::kFloat64));
  EXPECT_EQ(taken({"half", 1, 5, 2, 8}, torch::kFloat16), built_with_cuda());
  EXPECT_EQ(taken({"wider", 1, 5, 2, 257}, torch::kFloat32), !built_with_cuda());
}

TEST(GpuMeansOperator, RefusesTensorsOfTwoDevices) {
  TOST_TEST_GPU(device);
  const auto in = cast(inputs_of({"two", 1, 5, 2, 8}, torch::kFloat32), torch::kFloat32, false);
  auto there = on(device, in);
  Tensor sums = torch::zeros({1, 2, 9}, torch::kDouble);
  EXPECT_ANY_THROW(group_means(there.call, there.scale, &sums));
  EXPECT_ANY_THROW(group_means(there.call, in.scale, nullptr));
  there.call.pi = in.call.pi;
  EXPECT_ANY_THROW(group_means(there.call, there.scale, nullptr));
}

}  // namespace
}  // namespace group_means_test
}  // namespace tost
