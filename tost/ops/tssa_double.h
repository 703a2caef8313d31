// Forward and backward in plain ATen for float64, by the same equations as the kernels.
#pragma once

#include "tost/ops/tssa_inner.h"

namespace tost {

// [B, N, C] -> [B, H, N, P], and back.
inline at::Tensor split_by_head(const at::Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}
inline at::Tensor merge_by_head(const at::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)}).contiguous();
}

TssaForwardResult tssa_forward_double(const at::Tensor& w, const at::Tensor& temp,
                                      const std::optional<at::Tensor>& lengths);

std::tuple<at::Tensor, at::Tensor> tssa_backward_double(
    const std::optional<at::Tensor>& grad_y, const std::optional<at::Tensor>& grad_pi,
    const at::Tensor& w, const at::Tensor& temp, const at::Tensor& pi, const at::Tensor& energy,
    const at::Tensor& moment, const at::Tensor& pi_sum, const std::optional<at::Tensor>& lengths);

}  // namespace tost
