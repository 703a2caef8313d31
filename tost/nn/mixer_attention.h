// Mixers with queries, keys and values: what TSSA is compared with.
#pragma once

#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"

namespace tost {

// One projection to q, k, v ([3C, C], in that order, heads within each) and one out.
class AttentionMixer : public TokenMixer {
 public:
  explicit AttentionMixer(const MixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  std::shared_ptr<Linear> qkv;   // [3C, C]
  std::shared_ptr<Linear> proj;  // [C, C]

 protected:
  // q, k, v [B, H, N, P], views of the projection → [B, H, N, P]. `own` [B, N] bool tells the
  // tokens of a sequence from its padding; undefined: there is none.
  virtual torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& own) = 0;

  int64_t heads_;
};

// softmax(q kᵀ / √P) v by torch's fused kernel: N² time, memory linear in N.
class SoftmaxMixer : public AttentionMixer {
 public:
  using AttentionMixer::AttentionMixer;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& own) override;
};

// Cross-covariance attention (XCiT): features attend to features, over q and k normalised along
// tokens.
class CrossCovarianceMixer : public AttentionMixer {
 public:
  explicit CrossCovarianceMixer(const MixerConfig& config);

  torch::Tensor temperature;  // [H, 1, 1], starts at 1

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& own) override;
};

// Kernelised linear attention (Katharopoulos et al. 2020): φ(q)(φ(k)ᵀ v) / φ(q)·Σφ(k), φ = elu + 1.
class LinearAttentionMixer : public AttentionMixer {
 public:
  using AttentionMixer::AttentionMixer;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& own) override;
};

}  // namespace tost
