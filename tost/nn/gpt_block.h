// One block of a causal language model: x + γ₁ mixer(norm x), then x + γ₂ mlp(norm x), with the
// official language code's names.
#pragma once

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/nn/recompute.h"

namespace tost {

struct GptBlockConfig {
  int64_t dim = 0;
  int64_t mlp_hidden = 0;
  double layer_scale = 1e-5;
  double dropout = 0;  // of both branches
  bool bias = false;
  bool tanh_gelu = false;
};

// What one block lets be seen.
struct GptTrace {
  MixerTrace mixer;
  torch::Tensor mixer_input;   // the normalised tokens that go into the mixer [B, T, C]
  torch::Tensor mixer_output;  // before LayerScale and the residual [B, T, C]
  torch::Tensor mixed;         // after the mixer's residual [B, T, C]
  torch::Tensor output;        // [B, T, C]
};

// c_proj(GELU(c_fc x)), exact (erf) GELU or its approximation by tanh.
class GptMlp : public torch::nn::Module {
 public:
  GptMlp(int64_t dim, int64_t hidden, bool bias, bool tanh_gelu = false);
  torch::Tensor forward(const torch::Tensor& x) const;
  bool tanh_gelu() const { return tanh_gelu_; }

  std::shared_ptr<Linear> c_fc, c_proj;

 private:
  bool tanh_gelu_;
};

class GptBlock : public torch::nn::Module {
 public:
  GptBlock(const GptBlockConfig& config, std::shared_ptr<CausalMixer> mixer);

  // x [B, T, C] → [B, T, C]; fills `trace` unless it is null. `place`: as in CausalCall.
  torch::Tensor forward(const torch::Tensor& x, MixerState* state, int64_t position,
                        GptTrace* trace = nullptr, const torch::Tensor* place = nullptr);

  std::shared_ptr<LayerNorm> ln_1, ln_2;
  std::shared_ptr<CausalMixer> attn;
  std::shared_ptr<GptMlp> mlp;
  torch::Tensor gamma1, gamma2;            // [C]
  bool branches = true;                    // false: layer by layer always, to compare
  Recompute recompute = Recompute::kNone;  // of whole sequences where gradients are wanted

 private:
  torch::Tensor dropped(const torch::Tensor& x) const;
  // As in Block.
  torch::Tensor layer_by_layer(const torch::Tensor& x, const CausalCall& call, GptTrace* trace);
  torch::Tensor in_branches(const torch::Tensor& x);

  double dropout_;
};

}  // namespace tost
