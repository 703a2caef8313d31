// Forward and backward in plain ATen for float64, by the same equations as the kernels.
#pragma once

#include "tost/ops/tssa_inner.h"

namespace tost {

TssaForwardResult tssa_forward_double(const at::Tensor& w, const at::Tensor& temp,
                                      const std::optional<at::Tensor>& lengths);

std::tuple<at::Tensor, at::Tensor> tssa_backward_double(
    const std::optional<at::Tensor>& grad_y, const std::optional<at::Tensor>& grad_pi,
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const std::optional<at::Tensor>& lengths);

}  // namespace tost
