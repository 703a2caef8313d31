// Batch norm in training and the GELU behind it as one differentiable function, which keeps its
// input alone.
#pragma once

#include "tost/torch.h"

namespace tost {

// GELU(norm(z)), or norm(z) without `gelu`, for z [B, C, Y, X] channels-last; updates the running
// statistics of a norm in training. The value of torch's two operations to rounding; they are run
// where this does not apply: in evaluation, without gradients, off the CPU, for other types and
// layouts.
torch::Tensor norm_gelu(torch::nn::BatchNorm2dImpl& norm, const torch::Tensor& z, bool gelu);

}  // namespace tost
