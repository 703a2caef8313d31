#include "tost/ops/coding_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tost/ops/coding_rate_test_util.h"

namespace tost {
namespace {

using namespace testing;
using torch::Tensor;

struct Case {
  int64_t tokens, dim, heads;
  double scale;
};

const std::vector<Case> kCases{{1, 1, 1, 1},  {1, 6, 2, 1},      {3, 6, 2, 600},
                               {30, 6, 3, 1}, {30, 12, 4, 1200}, {50, 5, 5, 1}};

TEST(CodingRate, EqualsBothGramForms) {
  torch::manual_seed(1);
  for (const auto& c : kCases) {
    const auto z = normal({c.tokens, c.dim});
    const double factor = c.scale / double(c.tokens);
    const double found = value(coding_rate(z, c.scale));
    EXPECT_NEAR(found, half_log_det(factor * torch::matmul(z.t(), z)), 1e-12 * (1 + found));
    EXPECT_NEAR(found, half_log_det(factor * torch::matmul(z, z.t())), 1e-12 * (1 + found));
  }
}

TEST(CodingRate, GroupsEqualTheirDefinition) {
  torch::manual_seed(2);
  for (const auto& c : kCases) {
    const auto z = normal({c.tokens, c.dim}), pi = random_membership({c.heads, c.tokens});
    double wanted = 0, wanted_bound = 0;
    const auto w = normal({c.tokens, c.heads * 2});
    for (int64_t k = 0; k < c.heads; ++k) {
      const double count = value(pi[k].sum()), share = count / double(c.tokens);
      const auto weighted = z * pi[k].unsqueeze(1) * (c.scale / count);
      wanted += share * half_log_det(torch::matmul(weighted.t(), z));
      for (int64_t i = 2 * k; i < 2 * k + 2; ++i) {
        const double moment = value((pi[k] * w.select(1, i).square()).sum()) / count;
        wanted_bound += 0.5 * share * std::log(1 + c.scale * moment);
      }
    }
    EXPECT_NEAR(value(compression_rate(z, pi, c.scale)), wanted, 1e-11 * (1 + wanted));
    EXPECT_NEAR(value(compression_bound(w, pi, c.scale)), wanted_bound, 1e-12 * (1 + wanted_bound));
  }
}

// Theorem 1: a bound for every orthogonal U, reached where U holds each group's eigenvectors.
TEST(CompressionBound, IsABoundAndIsReachedAtEigenvectors) {
  for (int seed = 0; seed < 60; ++seed) {
    torch::manual_seed(uint64_t(seed));
    const auto& c = kCases[size_t(seed) % kCases.size()];
    const auto z = normal({c.tokens, c.dim}), pi = random_membership({c.heads, c.tokens});
    const double exact = value(compression_rate(z, pi, c.scale));
    const auto bound = [&](const Tensor& u) {
      return value(compression_bound(project_heads(z, u), pi, c.scale));
    };
    const double loose = bound(random_subspaces(c.heads, c.dim, c.dim));
    EXPECT_GE(loose, exact * (1 - 1e-12));
    EXPECT_TRUE(c.dim == 1 || loose > exact * 1.001) << loose << " " << exact;
    const auto groups = torch::matmul(z.t().unsqueeze(0) * pi.unsqueeze(1), z);  // [H, C, C]
    EXPECT_NEAR(bound(std::get<1>(torch::linalg_eigh(groups))), exact, 1e-10 * (1 + exact));
  }
}

// The corollary for narrow heads: it takes groups that lie inside their subspaces.
TEST(CompressionBound, HoldsForNarrowHeadsWhereGroupsLieInsideThem) {
  for (int seed = 0; seed < 30; ++seed) {
    torch::manual_seed(uint64_t(seed));
    const int64_t each = 8, dim = 9, width = 3, heads = 3;
    const auto u = random_subspaces(heads, dim, width);
    const auto inside = torch::matmul(normal({heads, each, width}), u.transpose(1, 2));
    const auto z = inside.flatten(0, 1);
    const auto pi = torch::eye(heads, torch::kDouble).repeat_interleave(each, 1);
    const double exact = value(compression_rate(z, pi, 90));
    EXPECT_GE(value(compression_bound(project_heads(z, u), pi, 90)), exact * (1 - 1e-12));
  }
}

TEST(CompressionBound, IsNoBoundOfGroupsOutsideTheirSubspace) {
  const auto z = torch::tensor({{0.0, 2.0}}, torch::kDouble);
  const auto u = torch::tensor({{{1.0}, {0.0}}}, torch::kDouble);  // one head along the other axis
  const auto pi = torch::ones({1, 1}, torch::kDouble);
  EXPECT_EQ(value(compression_bound(project_heads(z, u), pi, 1)), 0);
  EXPECT_NEAR(value(compression_rate(z, pi, 1)), 0.5 * std::log(5), 1e-15);
}

TEST(HeadCompressionRate, LiesBelowTheBoundAndBelowTheWholeSpace) {
  for (int seed = 0; seed < 60; ++seed) {
    torch::manual_seed(uint64_t(seed));
    const auto& c = kCases[size_t(seed) % kCases.size()];
    const auto z = normal({c.tokens, c.dim}), pi = random_membership({c.heads, c.tokens});
    const auto w = normal({c.tokens, c.heads * 3});  // any w, no orthonormal projection
    EXPECT_LE(value(head_compression_rate(w, pi, c.scale)),
              value(compression_bound(w, pi, c.scale)) * (1 + 1e-12));
    const double whole = value(compression_rate(z, pi, c.scale));
    const auto head_rate = [&](int64_t width) {
      const auto u = random_subspaces(c.heads, c.dim, width);
      return value(head_compression_rate(project_heads(z, u), pi, c.scale));
    };
    EXPECT_NEAR(head_rate(c.dim), whole, 1e-11 * (1 + whole));
    EXPECT_TRUE(c.dim == 1 || head_rate(c.dim / 2) < whole) << whole;
  }
}

TEST(HeadCompressionRate, EqualsTheBoundForUncorrelatedFeatures) {
  torch::manual_seed(4);
  const auto features = std::get<0>(torch::linalg_qr(normal({20, 6})));
  const auto w = features * torch::tensor({1., 2., 3., 4., 5., 6.}, torch::kDouble);
  const auto pi = torch::full({2, 20}, 0.5, torch::kDouble);
  const double bound = value(compression_bound(w, pi, 3));
  EXPECT_NEAR(value(head_compression_rate(w, pi, 3)), bound, 1e-13);
  EXPECT_GT(bound, 1);
}

// 1/N sum_k U_k D_k U_k^T z Diag(pi_k), D = scale / (1 + scale second moment).
TEST(CompressionBound, HasTheGradientOfItsFormula) {
  torch::manual_seed(5);
  for (const auto& c : kCases) {
    for (const double scale : {1.0, double(c.dim) / 0.01}) {
      const auto z = normal({c.tokens, c.dim});
      const auto u = normal({c.heads, c.dim, 3});  // columns need not be orthonormal
      const auto pi = random_membership({c.heads, c.tokens});
      auto wanted = torch::zeros_like(z);
      for (int64_t k = 0; k < c.heads; ++k) {
        const auto w = torch::matmul(z, u[k]), share = pi[k].unsqueeze(1);
        const auto moment = (w.square() * share).sum(0) / share.sum();
        wanted += torch::matmul(w * share * (scale / (1 + scale * moment)), u[k].t());
      }
      const auto found = bound_gradient(z, u, pi, scale);
      EXPECT_LT(largest(found - wanted / double(c.tokens)), 1e-10 * (1 + largest(found)));
      EXPECT_GT(largest(found), 1e-4);
    }
  }
}

// One step of the paper's layer with tied orthonormal U and fixed Pi, over the stated range.
TEST(CompressionBound, IsLoweredByAStepDownItsGradient) {
  for (int seed = 0; seed < 20; ++seed) {
    torch::manual_seed(uint64_t(seed));
    const int64_t n = 20, dim = 12, heads = 3;
    for (const int64_t width : {4, 12}) {
      const auto z = normal({n, dim}), u = random_subspaces(heads, dim, width);
      const auto pi = random_membership({heads, n});
      for (const double scale : {1.0, 50.0}) {
        const auto bound = [&](const Tensor& x) {
          return value(compression_bound(project_heads(x, u), pi, scale));
        };
        const auto gradient = bound_gradient(z, u, pi, scale);
        double before = bound(z);
        for (const double tau : {0.1, 1.0, 10.0, double(n), 1.99 * double(n)}) {
          EXPECT_LT(bound(z - tau / scale * gradient), before) << tau << " scale " << scale;
        }
      }
    }
  }
}

TEST(ExactRates, HaveTheGradientOfTheirFormula) {
  torch::manual_seed(6);
  const auto z = normal({7, 4}).requires_grad_();
  coding_rate(z, 5).backward();
  const auto fixed = z.detach();
  const auto inverse =
      torch::inverse(torch::eye(4, torch::kDouble) + 5.0 / 7 * torch::matmul(fixed.t(), fixed));
  EXPECT_LT(largest(z.grad() - 5.0 / 7 * torch::matmul(fixed, inverse)), 1e-13);
}

TEST(ExactRates, GradientsStayFiniteForRepeatedAndVanishingValues) {
  const auto pi = torch::eye(2, torch::kDouble).repeat_interleave(2, 1);  // with zeros
  for (const auto& z : {torch::eye(4, torch::kDouble), torch::zeros({4, 4}, torch::kDouble),
                        torch::ones({4, 4}, torch::kDouble)}) {
    auto x = z.clone().requires_grad_();
    (coding_rate(x, 3) + compression_rate(x, pi, 3) + head_compression_rate(x, pi, 3) +
     compression_bound(unit_heads(x, 2), pi, 3))
        .backward();
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << z;
  }
}

// Unit-norm heads whose features share the energy evenly reach the ceiling; nothing exceeds it.
TEST(UnitHeads, CeilingOfTheLayerwiseFigure) {
  constexpr int64_t kWidth = 48;
  const double scale = kWidth / 0.01, ceiling = 0.5 * kWidth * std::log(101.0);
  EXPECT_NEAR(ceiling, 110.763, 5e-4);
  torch::manual_seed(7);
  const auto each = torch::eye(kWidth, torch::kDouble);
  const auto even = torch::cat({each, 3 * each}, 1);  // two heads
  const auto half = torch::full({2, kWidth}, 0.5, torch::kDouble);
  EXPECT_NEAR(value(compression_bound(unit_heads(even, 2), half, scale)), ceiling, 1e-11);
  for (int i = 0; i < 20; ++i) {
    const auto w = normal({196, 2 * kWidth}) * normal({2 * kWidth}).exp();
    const auto pi = random_membership({2, 196});
    const double found = value(compression_bound(unit_heads(w, 2), pi, scale));
    EXPECT_LT(found, ceiling);
    EXPECT_GT(found, 0.2 * ceiling);
  }
}

TEST(UnitHeads, HaveUnitNormUnlessNothingIsThere) {
  torch::manual_seed(8);
  auto w = normal({2, 5, 6});
  w[0][0].zero_();
  const auto norms = unit_heads(w, 2).view({2, 5, 2, 3}).norm(2, -1);
  EXPECT_EQ(largest(norms[0][0]), 0);
  EXPECT_LT(largest(norms.flatten(0, 1).narrow(0, 1, 9) - 1), 1e-14);
  EXPECT_LT(largest(unit_heads(w * 5, 2) - unit_heads(w, 2)), 1e-14);
  const auto tiny = torch::full({1, 2}, 1e-14, torch::kDouble);
  EXPECT_TRUE(torch::equal(unit_heads(tiny, 1), tiny));
}

TEST(CodingRateInvariance, OrderOfTokensAndRotationsChangeNothing) {
  torch::manual_seed(9);
  const auto z = normal({15, 8}), pi = random_membership({2, 15}), w = normal({15, 8});
  const auto order = torch::randperm(15);
  const auto rotation = random_subspaces(1, 8, 8)[0];
  const auto mixed = pi.index_select(1, order);
  const auto pairs = std::vector<std::pair<Tensor, Tensor>>{
      {coding_rate(z, 80), coding_rate(z.index_select(0, order), 80)},
      {coding_rate(z, 80), coding_rate(torch::matmul(z, rotation), 80)},
      {compression_rate(z, pi, 80), compression_rate(z.index_select(0, order), mixed, 80)},
      {compression_rate(z, pi, 80), compression_rate(torch::matmul(z, rotation), pi, 80)},
      {compression_bound(w, pi, 80), compression_bound(w.index_select(0, order), mixed, 80)},
      {head_compression_rate(w, pi, 80),
       head_compression_rate(w.index_select(0, order), mixed, 80)}};
  for (const auto& [a, b] : pairs) EXPECT_NEAR(value(a), value(b), 1e-12 * value(a));
  // The bound is not: it looks at one basis.
  EXPECT_GT(std::abs(value(compression_bound(w, pi, 80) -
                           compression_bound(torch::matmul(w, rotation), pi, 80))),
            1e-3);
}

}  // namespace
}  // namespace tost
