#include <gtest/gtest.h>

#include <cmath>

#include "tost/explain/measures.h"

namespace tost {
namespace {

// Heads that take coordinates begin ... begin + 1 of four.
torch::Tensor coordinates(int64_t begin) {
  return torch::eye(4, torch::kDouble).narrow(1, begin, 2);
}

TEST(HeadSpectra, OrthogonalHeadsCoverTheSpaceWithoutOverlap) {
  const HeadSpectra s = head_spectra(torch::stack({coordinates(0), coordinates(2)}));
  EXPECT_TRUE(torch::allclose(s.singular_values, torch::ones({2, 2}, torch::kDouble)));
  EXPECT_TRUE(torch::allclose(s.overlap, torch::eye(2, torch::kDouble)));
  EXPECT_NEAR(s.mean_overlap, 0, 1e-12);
  EXPECT_DOUBLE_EQ(s.chance_overlap, 0.5);
  EXPECT_EQ(s.rank, 4);
  EXPECT_NEAR(s.effective_rank, 4, 1e-9);
  EXPECT_EQ(s.energy_rank, 4);
}

TEST(HeadSpectra, HeadsThatShareADirection) {
  // span(e1, e2) and span(e2, e3): one of two principal angles is 0, the other 90 degrees.
  const HeadSpectra s = head_spectra(torch::stack({coordinates(0), coordinates(1)}));
  EXPECT_NEAR(s.mean_overlap, 0.5, 1e-12);
  EXPECT_EQ(s.rank, 3);
  EXPECT_NEAR(s.basis_values[0].item<double>(), std::sqrt(2.0), 1e-12);
}

TEST(HeadSpectra, ScaleCountsInTheSumAndNotInTheBases) {
  const auto scaled = torch::stack({3 * coordinates(0), coordinates(2)});
  const HeadSpectra s = head_spectra(scaled);
  EXPECT_NEAR(s.sum_values[0].item<double>(), 3, 1e-12);
  const double entropy = -(2 * 3.0 / 8 * std::log(3.0 / 8) + 2 * 1.0 / 8 * std::log(1.0 / 8));
  EXPECT_NEAR(s.effective_rank, std::exp(entropy), 1e-9);
  EXPECT_NEAR(s.basis_effective_rank, 4, 1e-9);
}

TEST(HeadSpectra, OneHeadEmptyHeadsAndBrokenWeights) {
  EXPECT_TRUE(std::isnan(head_spectra(torch::stack({coordinates(0)})).mean_overlap));
  const HeadSpectra zero = head_spectra(torch::zeros({2, 4, 2}));
  EXPECT_EQ(zero.rank, 0);
  EXPECT_TRUE(std::isnan(zero.mean_overlap));
  const HeadSpectra broken = head_spectra(torch::full({2, 4, 2}, NAN));
  EXPECT_FALSE(broken.singular_values.defined());
  EXPECT_TRUE(std::isnan(broken.effective_rank));
}

}  // namespace
}  // namespace tost
