// The plain form of TSSA in ATen, bidirectional and causal: the definition against which the
// kernels are tested. Autograd differentiates the plain form for any floating dtype and device, and
// stores six to ten times the input for backward.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <tuple>

#include "tost/ops/token_sums.h"

namespace tost {

// Takes w [B, N, C] and temp [H, 1]; H divides C. Returns y [B, N, C] with w's dtype and the
// memberships pi [B, H, N], both contiguous. For w in 16 bits the arithmetic and pi are float32.
// Follows the official vision code (arXiv 2412.17810) without dropout. Sums go over the first
// lengths[b] tokens of sample b; lengths is [B] int64. At padding y and pi are 0 for any w.
std::tuple<at::Tensor, at::Tensor> tssa_plain(const at::Tensor& w, const at::Tensor& temp,
                                              const std::optional<at::Tensor>& lengths = {});

// Does the same as tssa_plain() for a w that holds a part of each sample's tokens, with the valid
// lengths of the parts. Null sums mean that w holds all tokens. Results may have any strides.
std::tuple<at::Tensor, at::Tensor> tssa_plain_part(const at::Tensor& w, const at::Tensor& temp,
                                                   const std::optional<at::Tensor>& lengths,
                                                   const TokenSums* sums);

// Does the same as tssa_plain_part() with every membership equal to 1/heads: y = -(w / H) / (1 +
// mean over tokens of w^2). `sums` as there.
at::Tensor tssa_uniform(const at::Tensor& w, int64_t heads,
                        const std::optional<at::Tensor>& lengths = {},
                        const TokenSums* sums = nullptr);

// Has the arguments and results of tssa_causal (ops/tssa_causal.h); for w in 16 bits the arithmetic
// is float32. Follows the official language code (arXiv 2412.17810) without dropout, and adds the
// state.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state = std::nullopt, c10::SymInt position = 0);

// Does the same as tssa_causal_plain() if w holds a part of each sample's tokens, from `position`
// on. Takes no state, and returns the state of the part. Null sums mean that w holds all tokens.
std::tuple<at::Tensor, at::Tensor, at::Tensor> tssa_causal_plain_part(
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& denom_bias,
    const std::optional<at::Tensor>& state, const c10::SymInt& position, const TokenSums* sums);

// Computes gradients that can be differentiated again, for operators with a fused backward. Returns
// dL/dinput of every input that requires a gradient, by `outputs` of the operator's plain form. An
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

// The functions below check inputs of the operators and throw usage Errors; sizes may be symbolic.
// w must be [B, N, C] of float32, bfloat16 or float64, with C a positive multiple of heads.
void check_tssa_heads(const at::Tensor& w, const c10::SymInt& heads);
// Checks that lengths, if present, are [B] int64 on w's device; does not check their values.
void check_tssa_lengths(const at::Tensor& w, const std::optional<at::Tensor>& lengths);
// Checks w and lengths, and that temp is [H, 1], floating-point, on w's device.
void check_tssa_inputs(const at::Tensor& w, const at::Tensor& temp,
                       const std::optional<at::Tensor>& lengths = {});
// Checks w and temp, and denom_bias, state and position by the rules of tssa_causal.h.
void check_tssa_causal_inputs(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const std::optional<at::Tensor>& state,
                              const c10::SymInt& position);

}  // namespace tost
