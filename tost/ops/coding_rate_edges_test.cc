// Extreme values, sizes, shapes and dtypes of coding rates, and their errors.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/ops/coding_rate.h"
#include "tost/ops/coding_rate_test_util.h"

namespace tost {
namespace {

using namespace testing;
using torch::Tensor;

TEST(CodingRateExtremes, OneTokenAndEmptyGroupsCountAsTheFormulaSays) {
  const auto z = torch::tensor({{3.0, 4.0}}, torch::kDouble);
  EXPECT_NEAR(value(coding_rate(z, 2)), 0.5 * std::log(51), 1e-15);
  const auto pi = torch::tensor({{1.0}, {0.0}}, torch::kDouble);  // the second group has no token
  EXPECT_NEAR(value(compression_rate(z, pi, 2)), 0.5 * std::log(51), 1e-15);
  EXPECT_NEAR(value(head_compression_rate(z, pi, 2)), 0.5 * std::log(19), 1e-15);
  EXPECT_NEAR(value(compression_bound(z, pi, 2)), 0.5 * std::log(19), 1e-15);
  const auto u = torch::eye(2, torch::kDouble).view({2, 2, 1});
  const auto gradient = bound_gradient(z, u, pi, 2);
  EXPECT_NEAR(value(gradient[0][0]), 3 * 2 / 19.0, 1e-15);
  EXPECT_EQ(value(gradient[0][1]), 0);
}

TEST(CodingRateExtremes, RepeatedTokensAtAnySize) {
  const int64_t n = 300, c = 40;
  torch::manual_seed(10);
  const auto token = normal({1, c});
  const double square = value(token.square().sum());
  const auto pi = random_membership({2, n});
  for (const double size : {1e-30, 1e-9, 1.0, 1e9, 1e30, 1e120}) {
    const auto z = (size * token).expand({n, c}).contiguous();
    // The one direction has second moment size^2 |token|^2 in the whole and in each group.
    const double wanted = 0.5 * (size < 1e6 ? std::log1p(square * size * size)
                                            : std::log(square) + 2 * std::log(size));
    EXPECT_NEAR(value(coding_rate(z, 1)), wanted, 1e-12 * wanted) << size;
    EXPECT_NEAR(value(compression_rate(z, pi, 1)), wanted, 1e-12 * wanted) << size;
  }
}

TEST(CodingRateExtremes, SamplesThatAreNotFiniteStayAlone) {
  torch::manual_seed(11);
  auto z = normal({3, 5, 4});
  const auto pi = random_membership({3, 2, 5});
  const auto before = compression_rate(z, pi, 1);
  z[1][2][0] = NAN;
  const auto after = compression_rate(z, pi, 1);
  EXPECT_TRUE(std::isnan(value(after[1])));
  EXPECT_EQ(value(after[0]), value(before[0]));
  EXPECT_EQ(value(after[2]), value(before[2]));
  EXPECT_TRUE(std::isnan(value(coding_rate(z, 1)[1])));
  EXPECT_TRUE(std::isnan(value(head_compression_rate(z, pi, 1)[1])));
  EXPECT_TRUE(std::isnan(value(compression_bound(z, pi, 1)[1])));
}

TEST(CodingRateSizes, SlowThousandsOfTokens) {
  torch::manual_seed(12);
  const auto z = normal({4096, 384});
  const double found = value(coding_rate(z, 384 / 0.01));
  const double wanted = half_log_det(384 / 0.01 / 4096 * torch::matmul(z.t(), z));
  EXPECT_NEAR(found, wanted, 1e-10 * wanted);
}

TEST(CodingRateSizes, LeadingDimensionsAndStrides) {
  torch::manual_seed(13);
  const auto z = normal({6, 2, 3, 9}).permute({1, 2, 3, 0});  // [2, 3, 9, 6]
  const auto pi = random_membership({2, 3, 2, 9}), u = random_subspaces(2, 6, 3);
  ASSERT_FALSE(z.is_contiguous());
  const auto w = project_heads(z, u);
  const std::vector<Tensor> all{coding_rate(z, 2), compression_rate(z, pi, 2),
                                head_compression_rate(w, pi, 2), compression_bound(w, pi, 2)};
  for (const auto& found : all) EXPECT_EQ(found.sizes(), torch::IntArrayRef({2, 3}));
  const auto gradient = bound_gradient(z, u, pi, 2), unit = unit_heads(w, 2);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      const auto a = z[i][j].contiguous(), b = project_heads(a, u), p = pi[i][j];
      EXPECT_NEAR(value(all[0][i][j]), value(coding_rate(a, 2)), 1e-13);
      EXPECT_NEAR(value(all[1][i][j]), value(compression_rate(a, p, 2)), 1e-13);
      EXPECT_NEAR(value(all[2][i][j]), value(head_compression_rate(b, p, 2)), 1e-13);
      EXPECT_NEAR(value(all[3][i][j]), value(compression_bound(b, p, 2)), 1e-13);
      EXPECT_LT(largest(gradient[i][j] - bound_gradient(a, u, p, 2)), 1e-14);
      EXPECT_LT(largest(unit[i][j] - unit_heads(b, 2)), 1e-14);
    }
  }
  EXPECT_LT(largest(w[1][2].narrow(1, 3, 3) - torch::matmul(z[1][2], u[1])), 1e-14);
}

TEST(CodingRateSizes, NarrowDtypesAreComputedInFloat64) {
  torch::manual_seed(14);
  for (const auto dtype : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const auto w = normal({9, 6}).to(dtype), pi = random_membership({2, 9}).to(dtype);
    const auto wide = w.to(torch::kDouble), wide_pi = pi.to(torch::kDouble);
    EXPECT_EQ(coding_rate(w, 2).scalar_type(), torch::kDouble);
    EXPECT_EQ(value(coding_rate(w, 2)), value(coding_rate(wide, 2)));
    EXPECT_EQ(value(compression_rate(w, pi, 2)), value(compression_rate(wide, wide_pi, 2)));
    EXPECT_EQ(value(compression_bound(w, pi, 2)), value(compression_bound(wide, wide_pi, 2)));
    EXPECT_EQ(value(head_compression_rate(w, pi, 2)),
              value(head_compression_rate(wide, wide_pi, 2)));
  }
}

TEST(CodingRateErrors, EverySentence) {
  const auto refused = [](const std::string& part, const std::function<void()>& action) {
    try {
      action();
      ADD_FAILURE() << "no error; expected one with '" << part << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const auto z = normal({5, 4}), pi = random_membership({2, 5}), u = normal({2, 4, 2});
  const auto whole = torch::ones({5, 4}, torch::kLong);
  for (const double scale : {0.0, -1.0, double(NAN), double(INFINITY)}) {
    refused("scale is", [&] { coding_rate(z, scale); });
    refused("scale is", [&] { compression_rate(z, pi, scale); });
    refused("scale is", [&] { head_compression_rate(z, pi, scale); });
    refused("scale is", [&] { compression_bound(z, pi, scale); });
  }
  refused("has 1 dimensions", [&] { coding_rate(z[0], 1); });
  refused("has 0 dimensions", [&] { coding_rate({}, 1); });
  refused("floating-point dtype", [&] { coding_rate(whole, 1); });
  refused("at least one token", [&] { coding_rate(normal({0, 4}), 1); });
  refused("at least one token", [&] { unit_heads(normal({3, 0}), 1); });
  refused("pi must be [..., heads, tokens]", [&] { compression_rate(z, pi.narrow(1, 0, 4), 1); });
  refused("pi must be [..., heads, tokens]", [&] { compression_bound(z, pi.unsqueeze(0), 1); });
  refused("pi must be [..., heads, tokens]", [&] { compression_bound(z, normal({0, 5}), 1); });
  refused("is undefined", [&] { compression_rate(z, {}, 1); });
  refused("pi must be [..., heads, tokens]", [&] {
    compression_bound(normal({2, 5, 4}), random_membership({3, 2, 5}), 1);
  });
  refused("pi must be of a floating-point dtype",
          [&] { compression_rate(z, pi.to(torch::kLong), 1); });
  refused("cannot be split over 3 heads", [&] { unit_heads(z, 3); });
  refused("cannot be split over 0 heads", [&] { unit_heads(z, 0); });
  refused("cannot be split over 3 heads", [&] {
    compression_bound(z, random_membership({3, 5}), 1);
  });
  refused("cannot be split over 3 heads", [&] {
    head_compression_rate(z, random_membership({3, 5}), 1);
  });
  refused("u must be [heads, 4, width]", [&] { project_heads(z, normal({2, 3, 2})); });
  refused("u must be [heads, 4, width]", [&] { project_heads(z, normal({4, 2})); });
  refused("is undefined", [&] { project_heads(z, {}); });
  refused("u must be of a floating-point dtype", [&] { project_heads(z, u.to(torch::kLong)); });
}

}  // namespace
}  // namespace tost
