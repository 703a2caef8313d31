// Causal Token Statistics Self-Attention as an operator of torch: torch.ops.tost.tssa_causal in
// Python, tost::tssa_causal here. One operator serves whole sequences, chunks of sequences, and
// single tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "tost/ops/plain.h"

namespace tost {

// Takes w [B, T, C] float32, bfloat16 or float64, with any strides; temp [H, 1], where H divides C;
// and denom_bias [H, L, 1]. Token t of w is biased by denom_bias[:, position + t], and by 0 beyond
// L. `state` [B, 2 C + H] float64 holds sums over all tokens before w: energies [C], energies
// weighted by membership [C], memberships [H]; a missing state is zeros. `position` >= 0 is the
// number of earlier tokens, and only selects the biases. Returns y [B, T, C], contiguous and of w's
// dtype, the memberships pi [B, H, T], float32 (float64 for a float64 w), and a new tensor with the
// state after the last token. With q = w^2, sums over the tokens up to and including t:
//   E = max(sum q, 1e-12),  a_k = sum_i (q_i / E_i + bias_k),  Pi = softmax over heads of a temp,
//   S = sum Pi q / (sum Pi + 1e-8),  y = -w Pi / (1 + S).
// y and pi are differentiable in w, temp and denom_bias; states are constants. Throws a usage Error
// for wrong ranks, sizes, dtypes or devices, heads that do not divide C, and a negative position.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state = std::nullopt, c10::SymInt position = 0);

}  // namespace tost
