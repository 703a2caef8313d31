// A short causal depthwise convolution over tokens as an operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace tost {

// x [B, T, C], weight [taps, C], the last row for the current token; past [B, taps - 1, C], the
// tokens before x, or undefined for zeros, a constant. → [B, T, C]. float32 and bfloat16 on a CPU
// run the kernel (kernels/causal_conv.h), everything else the plain form. Differentiable twice and
// more.
at::Tensor causal_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& past);
at::Tensor causal_conv_plain(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& past);

}  // namespace tost
