// Running sums with exponential forgetting: the statistics of causal mixers that decay.
#pragma once

#include "tost/torch.h"

namespace tost {

// Computes s_t = exp(log_decay_h) s_{t-1} + x_t for every sequence, head and feature, by products
// with triangular matrices over chunks of 64 tokens. Differentiable in x [B, T, H, P] and log_decay
// [H], which is at most 0, or undefined for plain sums. `carry` [B, H, P] float64 is s before the
// first token (undefined or null: zeros), and gets s after the last one. Sums over chunks are
// float64, so a sum over millions of tokens is as exact as one over 64. Under a TokenSumsScope and
// without `carry`, x holds a part of every sequence; all parts have the same length.
torch::Tensor running_sums(const torch::Tensor& x, const torch::Tensor& log_decay,
                           torch::Tensor* carry = nullptr);

}  // namespace tost
