// Causal TSSA written out in ATen: the definition that the kernels are held to. Differentiable by
// autograd, any floating dtype, any device; it keeps about ten times its input for backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "tost/ops/token_sums.h"

namespace tost {

// Arguments and results of tssa_causal (ops/tssa_causal.h); half-width w is computed in float32.
// Source: the official language code (arXiv 2412.17810), its dropout left out, extended by the
// state.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state = std::nullopt, int64_t position = 0);

// The same where w holds a part of each sample's tokens, the first of which is at `position`;
// without a state, and the one that is returned is that of the part alone. Null sums: w holds all.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain_part(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, int64_t position, const TokenSums* sums);

}  // namespace tost
