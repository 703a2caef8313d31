// Correlations of a head's projected tokens: what the layer's diagonal statistic leaves out.
#pragma once

#include "tost/torch.h"

namespace tost {

// Per picture and head, over tokens weighted by membership as in the layer's own statistic:
// r_ij = M_ij / sqrt(M_ii M_jj). `absolute` takes the second moments M = 1/n_k sum_j pi_kj w_kj
// w_kj^T, whose diagonal is all that the layer computes; `centered` the covariance, with the
// weighted mean taken off. float64. Features without any spread have r = 0.
struct HeadCorrelations {
  torch::Tensor absolute, centered;  // |r| [B, H, P, P]
  torch::Tensor off_diagonal,
      centered_off_diagonal;  // mean of |r_ij|, i != j [B, H]; NaN for P = 1
  // What independent normal features of as many tokens would show by chance, sqrt(2 / (pi n)), n
  // the effective number (sum pi)^2 / sum pi^2 of tokens [B, H].
  torch::Tensor chance;
};

// w [B, N, C], pi [B, H, N].
HeadCorrelations head_correlations(const torch::Tensor& w, const torch::Tensor& pi);

}  // namespace tost
