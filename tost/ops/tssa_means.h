// TSSA with group means and with membership logits that are free of the length: the bidirectional
// operator with token statistics of our own, each of them an option.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "tost/kernels/tssa.h"
#include "tost/ops/token_sums.h"

namespace tost {

using kernels::TssaAdditions;

// As tssa() (tssa.h), with additions:
//   means        y = -(w Pi D) + H Pi mu,  mu_k = sum_j Pi_jk w_jk / (sum_j Pi_jk + 1e-8)
//   length_free  membership logits times N / P, N the sample's tokens
// Neither adds a parameter. Without them it is tssa(). float32 and bfloat16 on a CPU run the fused
// kernels, everything else the plain form. Differentiable in w and temp, twice and more.
std::tuple<at::Tensor, at::Tensor> tssa_means(const at::Tensor& w, const at::Tensor& temp,
                                              const std::optional<at::Tensor>& lengths,
                                              const TssaAdditions& additions);

// The plain form in ATen, any floating dtype and device. With `sums`, w holds a part of each
// sample's tokens, and lengths are the valid lengths of these parts.
std::tuple<at::Tensor, at::Tensor> tssa_means_plain(const at::Tensor& w, const at::Tensor& temp,
                                                    const std::optional<at::Tensor>& lengths,
                                                    const TssaAdditions& additions,
                                                    const TokenSums* sums = nullptr);

}  // namespace tost
