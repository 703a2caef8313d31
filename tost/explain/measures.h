// Measures of masks, memberships, clusters and subspaces.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tost/torch.h"

namespace tost {

// A mask has one entry, 0 or 1, for each token.
using TokenMask = std::vector<uint8_t>;

int64_t area_of(const TokenMask& mask);

// The number of tokens in both masks divided by the number in at least one; 1 if both masks are
// empty. Masks have equal lengths.
double intersection_over_union(const TokenMask& a, const TokenMask& b);

// The score of a random mask: the mean of intersection_over_union() of a mask of `object` tokens
// with all masks of `area` tokens, among `tokens` tokens.
double chance_iou(int64_t tokens, int64_t area, int64_t object);

// The area under the ROC curve: the probability that a token of the mask has a higher score than
// another token, with equal scores counting half. NaN if the mask has all tokens or none.
double roc_auc(const std::vector<double>& scores, const TokenMask& mask);

// Average precision: the sum of precision times gained recall over falling thresholds. Returns NaN
// for an empty mask. Random scores give about the mask's share of the tokens.
double average_precision(const std::vector<double>& scores, const TokenMask& mask);

// The entropy over heads of pi [..., H, N], divided by log H, as float64 [..., N]: 1 for uniform
// memberships, 0 for one head.
torch::Tensor membership_entropy(const torch::Tensor& pi);

// The numbers of a tensor in row-major order; none for an undefined one.
std::vector<double> numbers_of(const torch::Tensor& values);

// Mean and standard deviation (of the population) of the finite values; NaN without any.
struct Spread {
  double mean = std::nan(""), deviation = std::nan("");
  int64_t count = 0;
};
// The standard error of the mean, deviation / sqrt(count - 1), or NaN for fewer than two values.
double standard_error(const Spread& spread);
Spread spread_of(const std::vector<double>& values);
Spread spread_of(const torch::Tensor& values);

// Clusters points by k-means, a simple grouping to compare memberships with.
struct KMeansConfig {
  int64_t clusters = 2;
  int64_t rounds = 50;   // at most, of Lloyd's iteration
  int64_t restarts = 3;  // the lowest inertia wins
  uint64_t seed = 0;
};

struct KMeans {
  torch::Tensor centers;  // [K, D] float64; K is the number of points where there are fewer
  torch::Tensor labels;   // [N] int64
  double inertia = 0;     // sum of squared distances to the assigned centre
};

// Clusters points [N, D], N >= 1; values that are not finite count as 0. Draws the first centres by
// k-means++ (Arthur and Vassilvitskii, 2007) from the seed; an empty cluster keeps its centre.
// Throws a usage Error for fewer than one point or cluster.
KMeans k_means(const torch::Tensor& points, const KMeansConfig& config);

// The index [N] of the centre that is nearest to each point; the first index of equally near ones.
torch::Tensor nearest_centers(const torch::Tensor& points, const torch::Tensor& centers);

// The subspaces of the heads' projections U_k, in float64: singular values, overlaps, joint rank.
// Tensors are undefined and numbers NaN if weights are not finite.
struct HeadSpectra {
  torch::Tensor singular_values;  // of each U_k [H, min(C, P)], falling
  // The mean squared cosine [H, H] of the principal angles between span(U_k) and span(U_l); 1 on
  // the diagonal. Directions below 1e-6 of a head's largest singular value are not part of its
  // span. The mean is over the angles of the smaller of the two spans, and NaN for an empty span.
  torch::Tensor overlap;
  double chance_overlap = 0;  // of two random subspaces: P / C
  double mean_overlap = 0;    // of different heads; NaN for one head
  torch::Tensor sum_values;   // singular values of [U_1 ... U_H], falling
  // The singular values after each U_k is replaced by an orthonormal basis of its span: all 1 if
  // the heads are orthogonal.
  torch::Tensor basis_values;
  int64_t rank = 0;  // singular values of the sum above 1e-6 of the largest
  double effective_rank =
      0;  // exp of the entropy of sum_values / their sum (Roy and Vetterli 2007)
  double basis_effective_rank = 0;
  int64_t energy_rank = 0;  // directions that hold 99 % of the sum of squares of sum_values
};

// u [H, C, P].
HeadSpectra head_spectra(const torch::Tensor& u);

}  // namespace tost
