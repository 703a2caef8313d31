// A state-space model as a causal mixer: its state does not grow with the context.
#pragma once

#include "tost/nn/causal_conv.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/nn/state_space.h"

namespace tost {

// The layer of mixer_ssm.h read from the left alone; the optional convolution comes before it.
// State: "ssm" [B, C, 2 N] float64, and "conv".
class CausalSsmMixer : public CausalMixer {
 public:
  explicit CausalSsmMixer(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const CausalCall& call) override;

  std::shared_ptr<StateSpace> ssm;
  std::shared_ptr<CausalConv> conv;  // null without
  std::shared_ptr<Linear> c_proj;    // [2 C, C]
};

}  // namespace tost
