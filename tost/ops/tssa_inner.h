// The two inner operators of tssa, called through the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace tost {

// y, pi, and the statistics backward needs: energy [B, C], moment [B, C], pi_sum [B, H].
using TssaForwardResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

TssaForwardResult tssa_forward(const at::Tensor& w, const at::Tensor& temp,
                               const std::optional<at::Tensor>& lengths);

// Gradients of w [B, N, C] and temp [H, 1]; a missing grad counts as zero.
std::tuple<at::Tensor, at::Tensor> tssa_backward(const std::optional<at::Tensor>& grad_y,
                                                 const std::optional<at::Tensor>& grad_pi,
                                                 const at::Tensor& w, const at::Tensor& temp,
                                                 const at::Tensor& pi, const at::Tensor& energy,
                                                 const at::Tensor& moment, const at::Tensor& pi_sum,
                                                 const std::optional<at::Tensor>& lengths);

}  // namespace tost
