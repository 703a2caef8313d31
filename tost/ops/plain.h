// TSSA written out in ATen: the definition that the kernels are held to, in both directions.
// Differentiable by autograd, any floating dtype, any device; it stores six to ten times its input
// for backward.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <tuple>

#include "tost/ops/token_sums.h"

namespace tost {

// w [B, N, C], temp [H, 1], H dividing C. Returns y [B, N, C] with w's dtype and the memberships
// pi [B, H, N], both contiguous. Half-width w is computed in float32, and pi is then float32.
// Source: the official vision code (arXiv 2412.17810), its dropout left out.
// lengths [B] int64 are valid lengths: every sum goes over the first lengths[b] tokens of sample b
// only, and y and pi are 0 at the padding after them, whatever its values.
std::tuple<at::Tensor, at::Tensor> tssa_plain(const at::Tensor& w, const at::Tensor& temp,
                                              const std::optional<at::Tensor>& lengths = {});

// The same, of any strides, where w holds a part of each sample's tokens, unless sums is null;
// lengths are then the valid lengths of these parts.
std::tuple<at::Tensor, at::Tensor> tssa_plain_part(const at::Tensor& w, const at::Tensor& temp,
                                                   const std::optional<at::Tensor>& lengths,
                                                   const TokenSums* sums);

// The same with every membership fixed to 1/heads: y = -(w / H) / (1 + mean over tokens of w^2).
// `sums` as above.
at::Tensor tssa_uniform(const at::Tensor& w, int64_t heads,
                        const std::optional<at::Tensor>& lengths = {},
                        const TokenSums* sums = nullptr);

// Arguments and results of tssa_causal (ops/tssa_causal.h); half-width w is computed in float32.
// Source: the official language code (arXiv 2412.17810), its dropout left out, extended by the
// state.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state = std::nullopt, c10::SymInt position = 0);

// The same where w holds a part of each sample's tokens, the first of which is at `position`;
// without a state, and the one that is returned is that of the part only. Null sums: w holds all.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain_part(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, const c10::SymInt& position, const TokenSums* sums);

// Gradients that can be differentiated again, of operators whose own backward cannot: dL/dinput of
// every input that wants one, through `outputs`, an operator's plain form of them. An undefined
// gradient counts as zero, and an undefined input gets none.
torch::autograd::variable_list plain_gradients(const torch::autograd::variable_list& outputs,
                                               const torch::autograd::variable_list& inputs,
                                               const torch::autograd::variable_list& grads);

// Whether a token is valid, not padding: [B, tokens] bool from lengths [B].
at::Tensor own_tokens(const at::Tensor& lengths, const c10::SymInt& tokens);

// dtype of pi and of the statistics for a w of this dtype: float64 for float64, else float32.
at::ScalarType tssa_accumulation_dtype(at::ScalarType w);

// Whether there is an optional tensor; an undefined one counts as none.
inline bool given(const std::optional<at::Tensor>& x) {
  return x.has_value() && x->defined();
}

// What every entry of the operators demands of its inputs; symbolic sizes are fine. Each throws a
// usage Error. w [B, N, C] of float32, bfloat16 or float64, C a positive multiple of heads.
void check_tssa_heads(const at::Tensor& w, const c10::SymInt& heads);
// lengths, where given, [B] int64 on w's device. Values are not checked.
void check_tssa_lengths(const at::Tensor& w, const std::optional<at::Tensor>& lengths);
// Both, and temp [H, 1] floating, on w's device.
void check_tssa_inputs(const at::Tensor& w, const at::Tensor& temp,
                       const std::optional<at::Tensor>& lengths = {});
// The same, and what tssa_causal.h says of denom_bias, state and position.
void check_tssa_causal_inputs(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const std::optional<at::Tensor>& state,
                              const c10::SymInt& position);

}  // namespace tost
