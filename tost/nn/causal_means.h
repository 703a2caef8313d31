// Causal mixer on first moments: what a group of earlier tokens says on average. Not in the paper;
// see docs/language.md for where it comes from and what was measured.
#pragma once

#include "tost/nn/causal_conv.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/group_means.h"
#include "tost/nn/layers.h"

namespace tost {

// [u, v, g] = projections of x; w = convolution of u over tokens; pi = H softmax over heads of a
// linear map of x; m = decayed group means of v (group_means.h);
// out = c_proj((w + m) * silu(g)). Membership is used for writing alone: it decides how long a
// token is remembered, since every head forgets at its own rate.
// State: "means" [B, H, P + 1] float64, and "conv".
class CausalMeansMixer : public CausalMixer {
 public:
  // `uniform`: pi fixed to 1, what membership is compared with.
  CausalMeansMixer(const CausalMixerConfig& config, bool uniform);
  torch::Tensor forward(const torch::Tensor& x, const CausalCall& call) override;
  // Of w; membership comes from the router, not from them.
  torch::Tensor subspaces() const override;
  torch::Tensor project(const torch::Tensor& x) const override;
  int64_t head_count() const { return config_.heads; }

  std::shared_ptr<Linear> c_attn;    // [2 C or with the gate 3 C, C]: u, v, g
  std::shared_ptr<Linear> c_proj;    // [C, C]
  std::shared_ptr<CausalConv> conv;  // null without
  std::shared_ptr<Linear> router;    // [H, C] with bias; null when uniform
  std::shared_ptr<GroupMeans> means;
  std::shared_ptr<ForgettingRates> rates;
  torch::Tensor temp;  // [H], starts at 1; undefined when uniform

 private:
  torch::Tensor membership(const torch::Tensor& x) const;  // [B, T, H]

  CausalMixerConfig config_;
};

}  // namespace tost
