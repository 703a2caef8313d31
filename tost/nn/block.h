// One transformer block: x + γ₁ mixer(norm x), then x + γ₂ mlp(norm x).
#pragma once

#include <cstdint>
#include <memory>

#include "tost/nn/layers.h"
#include "tost/nn/recompute.h"
#include "tost/nn/token_mixer.h"
#include "tost/torch.h"

namespace tost {

struct BlockConfig {
  int64_t dim = 0;
  int64_t mlp_hidden = 0;
  double layer_scale = 1;  // initial value of gamma1 and gamma2
  double drop_path = 0;    // stochastic depth of both branches while training
  double dropout = 0;      // of single values of both branches while training
};

// What one block lets be seen.
struct BlockTrace {
  MixerTrace mixer;
  torch::Tensor mixer_input;   // the normalised tokens that go into the mixer [B, N, C]
  torch::Tensor mixer_output;  // before LayerScale and the residual [B, N, C]
  torch::Tensor mixed;         // after the mixer's residual [B, N, C]
};

class Block : public torch::nn::Module {
 public:
  Block(const BlockConfig& config, std::shared_ptr<TokenMixer> mixer);

  // x [B, N, C] → [B, N, C]; fills `trace` unless it is null. `lengths` as in MixerCall.
  torch::Tensor forward(const torch::Tensor& x, BlockTrace* trace = nullptr,
                        const torch::Tensor& lengths = {});

  std::shared_ptr<LayerNorm> norm1, norm2;
  std::shared_ptr<TokenMixer> attn;
  std::shared_ptr<Mlp> mlp;
  torch::Tensor gamma1, gamma2;            // [C]
  bool branches = true;                    // false: layer by layer always, to compare
  Recompute recompute = Recompute::kNone;  // where gradients are wanted and nothing is traced

 private:
  torch::Tensor dropped(const torch::Tensor& x) const;
  // The definition, and the same of functions that keep less for backward (branch.h).
  torch::Tensor layer_by_layer(const torch::Tensor& x, BlockTrace* trace,
                               const torch::Tensor& lengths);
  torch::Tensor in_branches(const torch::Tensor& x, const torch::Tensor& lengths);

  double drop_path_, dropout_;
};

}  // namespace tost
