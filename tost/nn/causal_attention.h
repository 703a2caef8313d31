// Causal attention for comparison: softmax attention with a key-value cache, optionally in a
// sliding window, and linear attention with a state of P x P numbers for each head.
#pragma once

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"

namespace tost {

// The projections and the optional convolution on q, k and v. Keys are c_attn and c_proj, as in the
// official softmax model.
class CausalAttention : public TokenMixer {
 public:
  explicit CausalAttention(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  std::shared_ptr<Linear> c_attn;    // [3 C, C]: q, k, v
  std::shared_ptr<Linear> c_proj;    // [C, C]
  std::shared_ptr<CausalConv> conv;  // over q, k and v; null without
  std::shared_ptr<Linear> gate;      // [C, C]; null without

 protected:
  // Mixes the values of q, k, v [B, H, T, P] to [B, H, T, P].
  virtual torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            MixerState* state) = 0;

  CausalMixerConfig config_;
};

// Scaled dot-product attention by torch's fused kernel. The state "k", "v" [B, H, cached tokens, P]
// grows with the context up to the window.
class CausalSoftmaxMixer : public CausalAttention {
 public:
  using CausalAttention::CausalAttention;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    MixerState* state) override;
};

// Linear attention φ(q) Σ φ(k) vᵀ / φ(q) Σ φ(k) with φ = elu + 1 and sums over tokens up to the
// current one. The state is "moments" [B, H, P, P + 1] float64.
class CausalLinearMixer : public CausalAttention {
 public:
  using CausalAttention::CausalAttention;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    MixerState* state) override;
};

}  // namespace tost
