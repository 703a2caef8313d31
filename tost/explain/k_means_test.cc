#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/explain/measures.h"

namespace tost {
namespace {

TEST(KMeans, FindsSeparateClusters) {
  torch::manual_seed(3);
  const auto centers = torch::tensor({{0.0, 0.0}, {10.0, 0.0}, {0.0, 10.0}}, torch::kDouble);
  const auto truth = torch::arange(90).remainder(3);
  const auto points = centers.index_select(0, truth) + 0.3 * torch::randn({90, 2}, torch::kDouble);
  const KMeans found = k_means(points, {.clusters = 3});
  for (int64_t group = 0; group < 3; ++group) {
    const auto labels = found.labels.masked_select(truth == group);
    EXPECT_TRUE((labels == labels[0]).all().item<bool>());
    const auto center = found.centers[labels[0].item<int64_t>()];
    EXPECT_LT((center - centers[group]).norm().item<double>(), 0.3);
  }
  EXPECT_LT(found.inertia, 90 * 2 * 0.3 * 0.3 * 1.5);
  EXPECT_TRUE(torch::equal(nearest_centers(points, found.centers), found.labels));
}

TEST(KMeans, InertiaByHandAndDeterminism) {
  // {0, 2} and {10}: centres 1 and 10, inertia 1 + 1.
  const auto points = torch::tensor({{0.0}, {2.0}, {10.0}}, torch::kDouble);
  const KMeans found = k_means(points, {.clusters = 2});
  EXPECT_DOUBLE_EQ(found.inertia, 2);
  EXPECT_DOUBLE_EQ(found.centers.sum().item<double>(), 11);
  const auto random = torch::randn({200, 5});
  EXPECT_TRUE(torch::equal(k_means(random, {.clusters = 4, .seed = 7}).centers,
                           k_means(random, {.clusters = 4, .seed = 7}).centers));
}

TEST(KMeans, FewEqualAndBrokenPoints) {
  EXPECT_EQ(k_means(torch::ones({2, 3}), {.clusters = 4}).centers.size(0), 2);
  const KMeans equal = k_means(torch::ones({9, 3}), {.clusters = 4});
  EXPECT_DOUBLE_EQ(equal.inertia, 0);
  EXPECT_TRUE((equal.labels == 0).all().item<bool>());
  auto broken = torch::zeros({3, 1});
  broken[1][0] = NAN;
  EXPECT_DOUBLE_EQ(k_means(broken, {.clusters = 2}).inertia, 0);
  EXPECT_THROW(k_means(torch::ones({0, 3}), {}), Error);
  EXPECT_THROW(k_means(torch::ones({3, 3}), {.clusters = 0}), Error);
}

}  // namespace
}  // namespace tost
