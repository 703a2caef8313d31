// Causal TSSA (arXiv 2412.17810, Eq. 28, in the form of the official code) with optional additions.
#pragma once

#include <utility>

#include "tost/nn/causal_means.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"

namespace tost {

// The projections of causal TSSA, with the official keys c_attn, which is one C x C map, and
// c_proj.
class CausalStatisticsMixer : public TokenMixer {
 public:
  explicit CausalStatisticsMixer(const CausalMixerConfig& config);

  torch::Tensor subspaces() const override;
  torch::Tensor project(const torch::Tensor& x) const override { return project_in(x, {}); }

  std::shared_ptr<Linear> c_attn, c_proj;
  std::shared_ptr<CausalConv> conv;  // on the projected tokens; null without
  std::shared_ptr<Linear> gate;      // null without

 protected:
  torch::Tensor project_in(const torch::Tensor& x, const MixerCall& call) const;
  torch::Tensor project_out(const torch::Tensor& y, const torch::Tensor& x,
                            MixerTrace* trace) const;

  CausalMixerConfig config_;
};

// Causal TSSA. The state is "statistics" [B, 2C + H] float64, or with decay "energy" [B, H, P] and
// "moments" [B, H, P + 1]. With means it also has "means" [B, H, P + 1].
class CausalTssaMixer : public CausalStatisticsMixer {
 public:
  explicit CausalTssaMixer(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  torch::Tensor temp;        // [H, 1], starts at 1
  torch::Tensor denom_bias;  // [H, bias_positions, 1], starts at 0
  std::shared_ptr<ForgettingRates> rates;
  std::shared_ptr<GroupMeans> means;  // null without
  std::shared_ptr<Linear> values;     // [C, C]; null unless means are of values

 private:
  // Returns y and pi [B, T, H] by the operator's formula (ops/plain.h) with sums that forget.
  std::pair<torch::Tensor, torch::Tensor> forgetting(const torch::Tensor& w,
                                                     const MixerCall& call) const;
  // Mixes the projected tokens w; uses `x` only for means of values.
  torch::Tensor mix(const torch::Tensor& w, const torch::Tensor& x, const MixerCall& call);
};

// TSSA with the constant membership 1/H. The state is "statistics" [B, H, P] float64.
class CausalUniformMixer : public CausalStatisticsMixer {
 public:
  using CausalStatisticsMixer::CausalStatisticsMixer;
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
};

// Only the projections and the optional convolution, as the baseline of comparisons.
class CausalNoMixer : public CausalStatisticsMixer {
 public:
  using CausalStatisticsMixer::CausalStatisticsMixer;
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  // It has no heads.
  torch::Tensor subspaces() const override { return {}; }
  torch::Tensor project(const torch::Tensor&) const override { return {}; }
};

}  // namespace tost
