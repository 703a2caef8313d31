// Batch norm and GELU of a convolutional stem in training (kernels/stem_grad.h), on CPU tensors
// [B, C, Y, X] channels-last, float32 or bfloat16; all of [C] is float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace tost {

// Mean and biased variance of each channel.
std::pair<at::Tensor, at::Tensor> column_moments(const at::Tensor& z);

// GELU(p), or p, with p = (z - mean) rstd weight + bias.
at::Tensor batch_norm_gelu(const at::Tensor& z, const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& mean, const at::Tensor& rstd, bool gelu);

struct NormGeluGradients {
  at::Tensor z, weight, bias;
};
// mean and rstd being those of z itself.
NormGeluGradients batch_norm_gelu_gradients(const at::Tensor& grad, const at::Tensor& z,
                                            const at::Tensor& weight, const at::Tensor& bias,
                                            const at::Tensor& mean, const at::Tensor& rstd,
                                            bool gelu);

}  // namespace tost
