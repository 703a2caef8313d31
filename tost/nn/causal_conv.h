// A short causal depthwise convolution over tokens: each channel mixes a token with the few before
// it.
#pragma once

#include <cstdint>

#include "tost/torch.h"

namespace tost {

class CausalConv : public torch::nn::Module {
 public:
  // taps >= 1, the current token included. Starts uniform in ±1/sqrt(taps), torch's choice for
  // convolutions, drawn from its default generator.
  CausalConv(int64_t channels, int64_t taps);

  // x [B, T, C] → [B, T, C]. `past` holds the taps - 1 tokens before x [B, taps - 1, C] (undefined:
  // zeros) and becomes those before the next token; null: zeros before, nothing is kept.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* past = nullptr) const;

  torch::Tensor weight;  // [taps, C], the last row for the current token
};

}  // namespace tost
