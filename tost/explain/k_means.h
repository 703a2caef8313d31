// Clusters of points by k-means: the plain grouping that memberships are compared with.
#pragma once

#include <cstdint>

#include "tost/torch.h"

namespace tost {

struct KMeansConfig {
  int64_t clusters = 2;
  int64_t rounds = 50;   // at most, of Lloyd's iteration
  int64_t restarts = 3;  // the lowest inertia wins
  uint64_t seed = 0;
};

struct KMeans {
  torch::Tensor centers;  // [K, D] float64; K is the number of points where there are fewer
  torch::Tensor labels;   // [N] int64
  double inertia = 0;     // sum of squared distances to the own centre
};

// points [N, D], N >= 1; what is not finite counts as 0. Begins with k-means++ (Arthur and
// Vassilvitskii, 2007) drawn from the seed; a cluster that loses its points keeps its centre.
// Deterministic. A usage Error for fewer than one point or cluster.
KMeans k_means(const torch::Tensor& points, const KMeansConfig& config);

// The nearest centre of each point [N]; of equal ones the first.
torch::Tensor nearest_centers(const torch::Tensor& points, const torch::Tensor& centers);

}  // namespace tost
