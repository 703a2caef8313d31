// A state-space model as a token mixer: what the Long Range Arena's best results rest on.
#pragma once

#include "tost/nn/causal_conv.h"
#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/nn/state_space.h"
#include "tost/nn/token_mixer.h"

namespace tost {

// S4's layer around S4D: y = ssm(x) read from both sides, GELU, and one map C → 2 C whose halves
// are output and gate (GLU). That map is all the mixing of channels the layer has, so it keeps the
// field's form: 2 C² weights, as TSSA's two projections, half of softmax's four. Heads play no
// part. Tokens are read in order.
class SsmMixer : public TokenMixer {
 public:
  explicit SsmMixer(const MixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  void draw_weights() override { ssm->draw_weights(); }

  static StateSpaceShape shape(int64_t dim) { return {.channels = dim, .bidirectional = true}; }

  std::shared_ptr<StateSpace> ssm;
  std::shared_ptr<Linear> out;  // [2 C, C]
};

// y [C, B, T] as StateSpace gives it → [B, T, C] of `dtype` by GELU, `out` and GLU.
torch::Tensor gated_output(torch::Tensor y, const Linear& out, torch::ScalarType dtype);

// A state-space model as a causal mixer: its state does not grow with the context.
// The layer of mixer_ssm.h read from the left alone; the optional convolution comes before it.
// State: "ssm" [B, C, 2 N] float64, and "conv".
class CausalSsmMixer : public TokenMixer {
 public:
  explicit CausalSsmMixer(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  std::shared_ptr<StateSpace> ssm;
  std::shared_ptr<CausalConv> conv;  // null without
  std::shared_ptr<Linear> c_proj;    // [2 C, C]
};

}  // namespace tost
