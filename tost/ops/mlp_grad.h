// LayerNorm, GELU and scaled residual of a block in training (kernels/mlp_grad.h), on tensors:
// contiguous rows [R, C] on the CPU. Products are float32 or bfloat16, everything else is
// float32.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost::branch {

// x as rows.
at::Tensor rows_of(const at::Tensor& x);

// LayerNorm of x float32, in `type`, with each row's mean and 1 / deviation where wanted.
at::Tensor normed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps,
                  at::ScalarType type, at::Tensor* mean = nullptr, at::Tensor* rstd = nullptr);

struct NormGradients {
  at::Tensor x, weight, bias;
};
// `residual` float32, or undefined, is added to the gradient of x.
NormGradients norm_gradients(const at::Tensor& grad, const at::Tensor& residual,
                             const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                             const at::Tensor& weight, bool with_bias);

// GELU(h + bias), exact or by its tanh approximation.
at::Tensor activated(const at::Tensor& h, const at::Tensor& bias, bool tanh);
// `grad` of the activations becomes that of h; gives its sums over rows where there is a bias, and
// writes the activations into `a`, which may be h.
at::Tensor back_through_gelu(const at::Tensor& h, const at::Tensor& bias, bool tanh,
                             at::Tensor& grad, at::Tensor& a);

// x + keep gamma (branch + bias); keep [G] holds for R / G rows each, and may be undefined: ones.
at::Tensor added(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& bias,
                 const at::Tensor& gamma, const at::Tensor& keep);

// Gradients of y = x + keep gamma (a weightᵀ + bias), with products in `type`.
struct AddGradients {
  AddGradients(const at::Tensor& grad_y, const at::Tensor& keep, at::ScalarType type);

  // The gradient of a.
  at::Tensor of_input(const at::Tensor& weight, const at::Tensor& gamma) const;
  // Computes the three gradients that follow from a; bias stays undefined without one.
  void of_parameters(const at::Tensor& a, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& gamma);

  at::Tensor masked, sums;  // keep grad_y, and its sums over rows
  at::Tensor weight, bias, gamma;
};

}  // namespace tost::branch
