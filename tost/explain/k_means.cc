#include "tost/explain/k_means.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/random.h"

namespace tost {
namespace {

using torch::Tensor;

Tensor as_points(const Tensor& points) {
  return points.to(torch::kDouble).nan_to_num(0, 0, 0);
}

// Squared distances [N, K], without the cancellation of the expanded square for few centres.
Tensor squared_distances(const Tensor& points, const Tensor& centers) {
  return torch::cdist(points, centers, 2, /*compute_mode=*/2).square();
}

// An index drawn in proportion to `weights` (all zero: any).
int64_t draw(const Tensor& weights, Random& random) {
  const auto sums = weights.cumsum(0);
  const double total = sums[-1].item<double>();
  if (!(total > 0)) return random.below(weights.size(0));
  const auto place = torch::tensor({random.uniform() * total}, torch::kDouble);
  const int64_t index = torch::searchsorted(sums, place, false, /*right=*/true).item<int64_t>();
  return std::min(index, weights.size(0) - 1);
}

Tensor first_centers(const Tensor& points, int64_t clusters, Random& random) {
  std::vector<Tensor> centers{points[random.below(points.size(0))]};
  auto nearest = squared_distances(points, centers[0].unsqueeze(0)).squeeze(1);
  while (int64_t(centers.size()) < clusters) {
    centers.push_back(points[draw(nearest, random)]);
    const auto last = squared_distances(points, centers.back().unsqueeze(0)).squeeze(1);
    nearest = torch::minimum(nearest, last);
  }
  return torch::stack(centers);
}

Tensor means_of(const Tensor& points, const Tensor& labels, const Tensor& centers) {
  const auto sums = torch::zeros_like(centers).index_add(0, labels, points);
  const auto counts = torch::bincount(labels, {}, centers.size(0)).to(torch::kDouble).unsqueeze(1);
  return torch::where(counts > 0, sums / counts.clamp_min(1), centers);
}

KMeans run_once(const Tensor& points, const KMeansConfig& config, Random& random) {
  KMeans result;
  result.centers = first_centers(points, std::min(config.clusters, points.size(0)), random);
  for (int64_t round = 0; round <= config.rounds; ++round) {
    const auto labels = nearest_centers(points, result.centers);
    const bool settled = result.labels.defined() && torch::equal(labels, result.labels);
    result.labels = labels;
    if (settled || round == config.rounds) break;
    result.centers = means_of(points, labels, result.centers);
  }
  result.inertia =
      (points - result.centers.index_select(0, result.labels)).square().sum().item<double>();
  return result;
}

}  // namespace

Tensor nearest_centers(const Tensor& points, const Tensor& centers) {
  return squared_distances(as_points(points), centers).argmin(1);
}

KMeans k_means(const Tensor& points, const KMeansConfig& config) {
  if (points.dim() != 2 || points.size(0) < 1 || config.clusters < 1) {
    fail_usage("k-means needs points [N, D] with N at least 1 and at least 1 cluster, found ",
               points.sizes(), " and ", config.clusters, ".");
  }
  const auto clean = as_points(points);
  KMeans best;
  for (int64_t restart = 0; restart < std::max<int64_t>(config.restarts, 1); ++restart) {
    Random random(config.seed, uint64_t(restart));
    KMeans found = run_once(clean, config, random);
    if (restart == 0 || found.inertia < best.inertia) best = std::move(found);
  }
  return best;
}

}  // namespace tost
