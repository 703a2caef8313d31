// What the heads' projections U_k span: their singular values, how much two heads' subspaces
// overlap, and how much of the space all of them cover together.
#pragma once

#include <cstdint>

#include "tost/torch.h"

namespace tost {

// float64. Undefined tensors and NaN where the weights are not finite.
struct HeadSpectra {
  torch::Tensor singular_values;  // of each U_k [H, min(C, P)], falling
  // Mean squared cosine of the principal angles between span(U_k) and span(U_l) [H, H]; 1 on the
  // diagonal. Directions below 1e-6 of a head's largest singular value are not part of its span; of
  // two spans of different dimension, the mean is over the smaller one's. NaN for an empty span.
  torch::Tensor overlap;
  double chance_overlap = 0;  // of two random subspaces: P / C
  double mean_overlap = 0;    // of different heads; NaN for one head
  torch::Tensor sum_values;   // singular values of [U_1 ... U_H], falling
  // The same with each U_k replaced by an orthonormal basis of its span: 1 everywhere where the
  // heads are orthogonal to each other.
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
