// Token-statistics mixers (arXiv 2412.17810): a projection in, second moments, a projection out.
#pragma once

#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"

namespace tost {

// The projections of TSSA, with the official keys `qkv`, which is one d x d map, and `to_out.0`.
class TokenStatisticsMixer : public TokenMixer {
 public:
  explicit TokenStatisticsMixer(const MixerConfig& config);

  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  torch::Tensor subspaces() const override;
  torch::Tensor project(const torch::Tensor& x) const override { return qkv->forward(x); }

  std::shared_ptr<Linear> qkv;                // [C, C]
  std::shared_ptr<torch::nn::Module> to_out;  // holds "0"

 protected:
  // Computes the input of the second map from w, the output of the first.
  virtual torch::Tensor between(const torch::Tensor& w, const MixerCall& call) = 0;

  int64_t heads_;

 private:
  std::shared_ptr<Linear> out_;
};

// The paper's operator in the form of the official code, with a learned temperature per head.
class TssaMixer : public TokenStatisticsMixer {
 public:
  explicit TssaMixer(const MixerConfig& config);
  torch::Tensor between(const torch::Tensor& w, const MixerCall& call) override;

  torch::Tensor temp;  // [H, 1], starts at 1
};

// TSSA with the constant membership 1/H, to measure the gain of learned groups.
class UniformMixer : public TokenStatisticsMixer {
 public:
  using TokenStatisticsMixer::TokenStatisticsMixer;
  torch::Tensor between(const torch::Tensor& w, const MixerCall& call) override;
};

// Both projections without a mixing of tokens: the baseline of comparisons.
class NoMixer : public TokenStatisticsMixer {
 public:
  using TokenStatisticsMixer::TokenStatisticsMixer;
  torch::Tensor between(const torch::Tensor& w, const MixerCall& call) override;
  // It has no heads.
  torch::Tensor subspaces() const override { return {}; }
  torch::Tensor project(const torch::Tensor&) const override { return {}; }
};

// The layer as in the paper (arXiv 2412.17810): one gradient step on the variational compression
// bound. The output map is tied to the subspaces.
//
// With U_k orthonormal, w_k = U_k^T z and eta > 0 learned:
//   Pi = softmax over heads of |U_k^T z_j|^2 / (2 eta),  S_k = sum_j Pi_kj w_kj^2 / sum_j Pi_kj,
//   y_j = -step * sum_k U_k D_k U_k^T z_j Pi_kj,  D = f'(S) = 1 / (1 + S),
// The result is -step * N times the gradient of compression_bound(z U, Pi, 1) in z with constant Pi
// (ops/coding_rate.h). As in the official layer, f(x) = log(1 + x), that is eps^2 = d, because
// second moments of normalised tokens are around 1. The layer has no output matrix and no bias:
// MixerConfig::qkv_bias is not used.
class TssaTiedMixer : public TokenMixer {
 public:
  explicit TssaTiedMixer(const MixerConfig& config);

  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  // The orthonormal QR factor of `basis`; a positive diagonal of R makes the factor continuous.
  // Scaling basis changes nothing.
  torch::Tensor subspaces() const override;
  torch::Tensor project(const torch::Tensor& x) const override;
  void draw_weights() override;

  torch::Tensor basis;    // [H, C, P], normal with deviation 0.02, as the released projection
  torch::Tensor log_eta;  // [1]; eta starts at P, where logits deviate by 1 / sqrt(2 P)
  // The step [1]: any value in (0, 2) lowers the bound at the layer's input for fixed Pi (see
  // compression_bound). The initial value is 1, the largest that reverses no direction.
  torch::Tensor step;
};

}  // namespace tost
