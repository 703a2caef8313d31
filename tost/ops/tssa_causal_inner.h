// The two inner operators of tssa_causal, called through the dispatcher, and their plain
// forms for float64.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace tost {

// y, pi, the state after, and what backward needs, the sums before each chunk (kernels/
// tssa_causal.h): carry [B, chunks, 2 C] float32 (float64 for a float64 w) and pi_carry [B, chunks,
// H] float64.
using CausalForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
// Gradients of w, temp and denom_bias.
using CausalGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

CausalForwardResult tssa_causal_forward(const at::Tensor& w, const at::Tensor& temp,
                                        const at::Tensor& denom_bias,
                                        const std::optional<at::Tensor>& state,
                                        c10::SymInt position);

// A missing grad counts as zero.
CausalGradients tssa_causal_backward(const std::optional<at::Tensor>& grad_y,
                                     const std::optional<at::Tensor>& grad_pi, const at::Tensor& w,
                                     const at::Tensor& temp, const at::Tensor& denom_bias,
                                     c10::SymInt position, const at::Tensor& pi,
                                     const at::Tensor& carry, const at::Tensor& pi_carry);

CausalForwardResult tssa_causal_forward_double(const at::Tensor& w, const at::Tensor& temp,
                                               const at::Tensor& denom_bias,
                                               const std::optional<at::Tensor>& state,
                                               int64_t position);

CausalGradients tssa_causal_backward_double(const std::optional<at::Tensor>& grad_y,
                                            const std::optional<at::Tensor>& grad_pi,
                                            const at::Tensor& w, const at::Tensor& temp,
                                            const at::Tensor& denom_bias, int64_t position,
                                            const at::Tensor& pi, const at::Tensor& carry,
                                            const at::Tensor& pi_carry);

}  // namespace tost
