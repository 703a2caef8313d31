// Running group means as an operator: first moments of earlier tokens, with forgetting. The paper
// does not have such an operator; docs/language.md has its gain.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// The inputs of a call, for T tokens of B sequences.
struct MeansCall {
  at::Tensor base;       // [B, T, C], to which the means are added
  at::Tensor values;     // [B, T, C]
  at::Tensor gate;       // [B, T, C] before its silu, or undefined
  at::Tensor pi;         // [B, T, H], H dividing C
  at::Tensor log_rates;  // [H] at most 0, or undefined: nothing is forgotten
  int64_t from_end = 0;  // the last so many heads read from the last token back
};

// y_t = (base_t + scale M_t / sqrt(R_t + 1e-6)) silu(gate_t), where M_t = G M_(t-1) + pi_t v_t per
// channel, R_t = G R_(t-1) + pi_t^2 per head, and G = exp(log rate). Without a gate the factor
// silu(gate_t) is absent. `sums` [B, H, P + 1] float64 holds M and R before the first token
// (undefined or null: zeros), and gets M and R after the last token, without gradients. Returns [B,
// T, C] of values' dtype, differentiable any number of times. Uses the kernels of kernels/means.h
// if has_fused_means(). For heads that read from the end, t - 1 is the token after t. Throws a
// usage Error for sums with such heads, and for sums of a wrong size.
at::Tensor group_means(const MeansCall& call, const at::Tensor& scale, at::Tensor* sums);

// Whether base, values and gate are all float32 or all bfloat16, on the CPU.
bool has_fused_means(const MeansCall& call);

// Reverses the tokens of x [B, T, C or H] in heads that read from the end. If all inputs of a call
// are reversed, all heads read from the first token. Two reversals change nothing.
at::Tensor in_reading_order(const at::Tensor& x, int64_t heads, int64_t from_end);
MeansCall in_reading_order(const MeansCall& call);

// The plain form, token by token: the definition against which the kernels are tested.
at::Tensor group_means_plain(const MeansCall& call, const at::Tensor& scale, at::Tensor* sums);

}  // namespace tost
