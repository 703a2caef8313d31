// What every entry of the operator demands of its inputs; symbolic sizes are fine.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tost {

// w [B, N, C] of float32, bfloat16 or float64, C a positive multiple of heads. Throws a usage
// Error.
void check_tssa_heads(const at::Tensor& w, const c10::SymInt& heads);

// lengths, where given, [B] int64 on w's device. What stands in them is not looked at.
void check_tssa_lengths(const at::Tensor& w, const std::optional<at::Tensor>& lengths);

// The lengths of a CPU, contiguous and from 0 to `tokens`; undefined if there are none. Throws a
// usage Error.
at::Tensor lengths_in_range(const std::optional<at::Tensor>& lengths, int64_t tokens);

// Both, and temp [H, 1] floating, on w's device.
void check_tssa_inputs(const at::Tensor& w, const at::Tensor& temp,
                       const std::optional<at::Tensor>& lengths = {});

// Whether there is an optional tensor; an undefined one counts as none.
inline bool given(const std::optional<at::Tensor>& x) {
  return x.has_value() && x->defined();
}

// The same, and what tssa_causal.h says of denom_bias, state and position.
void check_tssa_causal_inputs(const at::Tensor& w, const at::Tensor& temp,
                              const at::Tensor& denom_bias, const std::optional<at::Tensor>& state,
                              const c10::SymInt& position);

}  // namespace tost
