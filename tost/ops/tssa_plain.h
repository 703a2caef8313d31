// TSSA written out in ATen: the definition that the kernels are held to. Differentiable by
// autograd, any floating dtype, any device; it keeps about six times its input for backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

#include "tost/ops/token_sums.h"

namespace tost {

// w [B, N, C], temp [H, 1], H dividing C. Returns y [B, N, C] with w's dtype and the memberships
// pi [B, H, N]. Half-width w is computed in float32, and pi is then float32.
// Source: the official vision code (arXiv 2412.17810), its dropout left out.
// lengths [B] int64 are valid lengths: every sum goes over the first lengths[b] tokens of sample b
// alone, and y and pi are 0 at the padding after them, whatever stands there.
std::tuple<at::Tensor, at::Tensor> tssa_plain(const at::Tensor& w, const at::Tensor& temp,
                                              const std::optional<at::Tensor>& lengths = {});

// The same where w holds a part of each sample's tokens, unless sums is null; lengths are then the
// valid lengths of these parts.
std::tuple<at::Tensor, at::Tensor> tssa_plain_part(const at::Tensor& w, const at::Tensor& temp,
                                                   const std::optional<at::Tensor>& lengths,
                                                   const TokenSums* sums);

// The same with every membership fixed to 1/heads: y = -(w / H) / (1 + mean over tokens of w^2).
// `sums` as above.
at::Tensor tssa_uniform(const at::Tensor& w, int64_t heads,
                        const std::optional<at::Tensor>& lengths = {},
                        const TokenSums* sums = nullptr);

// Whether a token is valid, not padding: [B, tokens] bool from lengths [B].
at::Tensor own_tokens(const at::Tensor& lengths, const c10::SymInt& tokens);

// dtype of pi and of the statistics for a w of this dtype: float64 for float64, else float32.
at::ScalarType tssa_accumulation_dtype(at::ScalarType w);

}  // namespace tost
