// What the tests of coding rates share.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/ops/coding_rate.h"
#include "tost/torch.h"

namespace tost::testing {

using torch::Tensor;
using Shape = std::vector<int64_t>;

inline Tensor normal(const Shape& shape) {
  return torch::randn(shape, torch::kDouble);
}

// Orthonormal columns in each head.
inline Tensor random_subspaces(int64_t heads, int64_t dim, int64_t width) {
  return std::get<0>(torch::linalg_qr(normal({heads, dim, width})));
}

inline Tensor random_membership(const Shape& shape) {
  return (2 * normal(shape)).softmax(-2);
}

inline double value(const Tensor& x) {
  return x.item<double>();
}

inline double largest(const Tensor& x) {
  return x.abs().max().item<double>();
}

// Of compression_bound(z U, pi, scale) in z, pi held constant.
inline Tensor bound_gradient(const Tensor& z, const Tensor& u, const Tensor& pi, double scale) {
  const torch::AutoGradMode recorded(true);
  const auto x = z.detach().requires_grad_();
  const auto bound = compression_bound(project_heads(x, u.detach()), pi.detach(), scale);
  return torch::autograd::grad({bound.sum()}, {x})[0];
}

// 1/2 logdet(I + m), as the formulas are written.
inline double half_log_det(const Tensor& m) {
  return 0.5 * value(torch::logdet(torch::eye(m.size(0), torch::kDouble) + m));
}

}  // namespace tost::testing
