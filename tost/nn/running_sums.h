// Running sums with exponential forgetting: the statistics of causal mixers that decay.
#pragma once

#include "tost/torch.h"

namespace tost {

// Computes s_t = exp(log_decay_h) s_{t-1} + x_t for every sequence, head and feature, by products
// with triangular matrices over chunks of 64 tokens; differentiable in x and log_decay. x [B, T, H,
// P] floating; log_decay [H], at most 0, or undefined for plain sums. `carry` [B, H, P] float64 is
// s before the first token (undefined: zeros), and is set to s after the last one; null starts at
// zero. Between chunks sums are float64, so a sum over millions of tokens is as exact as one over
// 64. Under a TokenSumsScope and without `carry`, x holds a part of every sequence's tokens, as
// many as in every other place.
torch::Tensor running_sums(const torch::Tensor& x, const torch::Tensor& log_decay,
                           torch::Tensor* carry = nullptr);

}  // namespace tost
