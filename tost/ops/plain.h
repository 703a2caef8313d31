// TSSA written in ATen, in both forms: the definition that the kernels are compared with. It is
// differentiable by autograd, for any floating dtype and device, and stores six to ten times its
// input for backward.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <tuple>

#include "tost/ops/token_sums.h"

namespace tost {

// w [B, N, C], temp [H, 1], H dividing C. Returns y [B, N, C] with w's dtype and the memberships pi
// [B, H, N], both contiguous. For w in 16 bits the arithmetic and pi are float32. Follows the
// official vision code (arXiv 2412.17810) without its dropout. lengths [B] int64 are valid lengths:
// sums go over the first lengths[b] tokens of sample b. At the padding y and pi are 0, whatever w
// is.
std::tuple<at::Tensor, at::Tensor> tssa_plain(const at::Tensor& w, const at::Tensor& temp,
                                              const std::optional<at::Tensor>& lengths = {});

// As tssa_plain(), but w holds a part of each sample's tokens, and lengths are valid lengths of
// these parts. Null sums: w holds all tokens. Results may have any strides.
std::tuple<at::Tensor, at::Tensor> tssa_plain_part(const at::Tensor& w, const at::Tensor& temp,
                                                   const std::optional<at::Tensor>& lengths,
                                                   const TokenSums* sums);

// As tssa_plain_part(), with every membership fixed to 1/heads: y = -(w / H) / (1 + mean over
// tokens of w^2). `sums` as there.
at::Tensor tssa_uniform(const at::Tensor& w, int64_t heads,
                        const std::optional<at::Tensor>& lengths = {},
                        const TokenSums* sums = nullptr);

// Has the arguments and results of tssa_causal (ops/tssa_causal.h); for w in 16 bits the arithmetic
// is float32. Follows the official language code (arXiv 2412.17810) without its dropout, with the
// state added.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state = std::nullopt, c10::SymInt position = 0);

// As tssa_causal_plain(), but w holds a part of each sample's tokens, from `position` on. It takes
// no state, and returns the state of the part only. Null sums: w holds all tokens.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain_part(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, const c10::SymInt& position, const TokenSums* sums);

// Computes gradients that can be differentiated again, for operators whose backward cannot. Returns
// dL/dinput of every input that requires it, through `outputs` of the operator's plain form. An
// undefined gradient counts as zero, and an undefined input gets none.
torch::autograd::variable_list plain_gradients(const torch::autograd::variable_list& outputs,
                                               const torch::autograd::variable_list& inputs,
                                               const torch::autograd::variable_list& grads);

// Whether a token is valid, not padding: [B, tokens] bool from lengths [B].
at::Tensor valid_tokens(const at::Tensor& lengths, const c10::SymInt& tokens);

// The dtype of pi and of sums for a w of this dtype: float64 for float64, else float32.
at::ScalarType tssa_accumulation_dtype(at::ScalarType w);

// Whether an optional tensor is present and defined.
inline bool is_defined(const std::optional<at::Tensor>& x) {
  return x.has_value() && x->defined();
}

// The functions below check inputs of the operators, whose sizes may be symbolic, and throw usage
// Errors. w must be [B, N, C] of float32, bfloat16 or float64, with C a positive multiple of heads.
void check_tssa_heads(const at::Tensor& w, const c10::SymInt& heads);
// lengths, if present, must be [B] int64 on w's device. Their values are not checked.
void check_tssa_lengths(const at::Tensor& w, const std::optional<at::Tensor>& lengths);
// Checks w and lengths, and that temp is [H, 1], floating-point, on w's device.
void check_tssa_inputs(const at::Tensor& w, const at::Tensor& temp,
                       const std::optional<at::Tensor>& lengths = {});
// Checks w and temp, and what tssa_causal.h requires of denom_bias, state and position.
void check_tssa_causal_inputs(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const std::optional<at::Tensor>& state,
                              const c10::SymInt& position);

}  // namespace tost
