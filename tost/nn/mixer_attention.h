// Attention mixers, for comparison with TSSA.
#pragma once

#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"

namespace tost {

// A mixer with one projection [3C, C] to q, k and v, in this order with heads within each, and one
// output projection.
class AttentionMixer : public TokenMixer {
 public:
  explicit AttentionMixer(const MixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  std::shared_ptr<Linear> qkv;   // [3C, C]
  std::shared_ptr<Linear> proj;  // [C, C]

 protected:
  // Mixes q, k, v [B, H, N, P], views of the projection, to [B, H, N, P]. `valid` [B, N] bool is
  // false at padding; undefined if there is no padding.
  virtual torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& valid) = 0;

  int64_t heads_;
};

// Computes softmax(q kᵀ / √P) v by torch's fused kernel, in time of order N² and memory of order N.
class SoftmaxMixer : public AttentionMixer {
 public:
  using AttentionMixer::AttentionMixer;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& valid) override;
};

// Cross-covariance attention (XCiT): features attend to features, with q and k normalised along
// tokens.
class CrossCovarianceMixer : public AttentionMixer {
 public:
  explicit CrossCovarianceMixer(const MixerConfig& config);

  torch::Tensor temperature;  // [H, 1, 1], starts at 1

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& valid) override;
};

// Kernelised linear attention (Katharopoulos et al. 2020): φ(q)(φ(k)ᵀ v) / φ(q)·Σφ(k), φ = elu + 1.
class LinearAttentionMixer : public AttentionMixer {
 public:
  using AttentionMixer::AttentionMixer;

 protected:
  torch::Tensor mix(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const torch::Tensor& valid) override;
};

// Attention within learned subspaces: one projection U gives queries, keys and values, as in
// white-box transformers. MSSA is that of CRATE (arXiv 2306.01129, Eq. 9 and 10, model/crate.py in
// Ma-Lab-Berkeley/CRATE). CBSA is that of arXiv 2509.16875 (attn_layers.py in QishuaiWen/CBSA). The
// code is written from the papers' formulas.
//
// MSSA and CBSA compute w = x U, mix within each head of w, and apply a free output map as in the
// official code; the papers tie this map to U.
class SubspaceMixer : public TokenMixer {
 public:
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

 protected:
  // `name` is the name of the projection in official checkpoints.
  SubspaceMixer(const MixerConfig& config, const std::string& name);

  // Mixes w [B, H, N, P] to [B, H, N, P]. `lengths` are as in MixerCall.
  virtual torch::Tensor mix(const torch::Tensor& w, const torch::Tensor& lengths) = 0;

 private:
  int64_t heads_;
  std::shared_ptr<Linear> in_;  // [C, C]
  std::shared_ptr<torch::nn::Module> to_out_;
  std::shared_ptr<Linear> out_;  // [C, C]
};

// Computes softmax(w wᵀ / √P) w in time of order N².
class MssaMixer : public SubspaceMixer {
 public:
  explicit MssaMixer(const MixerConfig& config) : SubspaceMixer(config, "qkv") {}

 protected:
  torch::Tensor mix(const torch::Tensor& w, const torch::Tensor& lengths) override;
};

// Computes attention among representatives of the tokens, and broadcasts the result to all tokens.
// The formula for a head, with att(a, b) = softmax(a bᵀ / √P):
//   R0 = means of w over 64 runs of tokens,  A = att(R0, w),  R = R0 + step_rep A w,
//   y = step_x Aᵀ att(R, R) R.
// Time is linear in N. The official code averages over an 8 x 8 grid of a square picture. CbsaMixer
// averages over runs of adjacent tokens by adaptive pooling, which fits any sequence. Up to 64
// tokens every token is a representative.
class CbsaMixer : public SubspaceMixer {
 public:
  static constexpr int64_t kRepresentatives = 64;

  explicit CbsaMixer(const MixerConfig& config);
  void draw_weights() override;

  torch::Tensor step_x, step_rep;  // [H, 1, 1], normal with deviation 1 as in the official code

 protected:
  torch::Tensor mix(const torch::Tensor& w, const torch::Tensor& lengths) override;
};

}  // namespace tost
