// Correlations of a head's projected tokens: what the layer's diagonal statistic leaves out.
#pragma once

#include <torch/torch.h>

namespace tost {

// Per picture and head, over tokens weighted by membership as in the layer's own statistic, without
// a mean taken off: r_ij = M_ij / sqrt(M_ii M_jj), M = 1/n_k sum_j pi_kj w_kj w_kj^T. float64.
struct HeadCorrelations {
  torch::Tensor absolute;      // |r| [B, H, P, P]; features that are 0 everywhere have r = 0
  torch::Tensor off_diagonal;  // mean of |r_ij|, i != j [B, H]; NaN for P = 1
  // What independent normal features of as many tokens would show by chance, sqrt(2 / (pi n)), n
  // the effective number (sum pi)^2 / sum pi^2 of tokens [B, H].
  torch::Tensor chance;
};

// w [B, N, C], pi [B, H, N].
HeadCorrelations head_correlations(const torch::Tensor& w, const torch::Tensor& pi);

}  // namespace tost
