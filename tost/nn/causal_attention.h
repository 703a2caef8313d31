// Causal attention by pairs, for comparison: softmax (all tokens or a sliding window) with a
// key-value cache, and linear (kernelised) attention with a state of P x P numbers a head.
#pragma once

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"

namespace tost {

// Projections and the optional convolution on q, k and v. Keys as in the official softmax model:
// c_attn, c_proj.
class CausalAttention : public TokenMixer {
 public:
  explicit CausalAttention(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  // Attention between the projections: q, k and v of the tokens [B, T, 3 C] → [B, T, C].
  torch::Tensor attend(const torch::Tensor& qkv, MixerState* state);

  std::shared_ptr<Linear> c_attn;    // [3 C, C]: q, k, v
  std::shared_ptr<Linear> c_proj;    // [C, C]
  std::shared_ptr<CausalConv> conv;  // over q, k and v; null without
  std::shared_ptr<Linear> gate;      // [C, C]; null without

 protected:
  // q, k, v [B, H, T, P] → [B, H, T, P].
  virtual torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            MixerState* state) = 0;

  CausalMixerConfig config_;
};

// Scaled dot-product attention (torch's fused kernel). State: "k", "v" [B, H, cached tokens, P]; it
// grows with the context, at most to the window.
class CausalSoftmaxMixer : public CausalAttention {
 public:
  using CausalAttention::CausalAttention;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    MixerState* state) override;
};

// φ(q) Σ φ(k) vᵀ / φ(q) Σ φ(k) with φ = elu + 1 over tokens up to the current one. State: "moments"
// [B, H, P, P + 1] float64.
class CausalLinearMixer : public CausalAttention {
 public:
  using CausalAttention::CausalAttention;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    MixerState* state) override;
};

}  // namespace tost
