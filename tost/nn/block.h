// One transformer block: x + γ₁ mixer(norm x), then x + γ₂ mlp(norm x).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

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
  double norm_eps = 1e-6;
  bool bias = true;  // of the norms and the MLP
  bool tanh_gelu = false;
  // Keys ln_1, ln_2, mlp.c_fc and mlp.c_proj of the official language code; otherwise norm1, norm2,
  // mlp.fc1 and mlp.fc2 of the official vision code.
  bool language_keys = false;
};

// fc2(GELU(fc1(x))), exact (erf) GELU or its approximation by tanh.
class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const BlockConfig& config);

  torch::Tensor forward(const torch::Tensor& x) const;
  bool tanh_gelu() const { return tanh_gelu_; }

  std::shared_ptr<Linear> fc1, fc2;

 private:
  bool tanh_gelu_;
};

// Intermediate results recorded by a traced forward.
struct BlockTrace {
  MixerTrace mixer;
  torch::Tensor mixer_input;   // the normalised tokens that go into the mixer [B, N, C]
  torch::Tensor mixer_output;  // before LayerScale and the residual [B, N, C]
  torch::Tensor mixed;         // after the mixer's residual [B, N, C]
  torch::Tensor output;        // [B, N, C]
};

class Block : public torch::nn::Module {
 public:
  Block(const BlockConfig& config, std::shared_ptr<TokenMixer> mixer);

  // x [B, N, C] → [B, N, C]; fills `trace` unless it is null. The mixer gets `call`, with the
  // trace's part of its own.
  torch::Tensor forward(const torch::Tensor& x, BlockTrace* trace = nullptr, MixerCall call = {});

  std::shared_ptr<LayerNorm> norm1, norm2;
  std::shared_ptr<TokenMixer> attn;
  std::shared_ptr<Mlp> mlp;
  torch::Tensor gamma1, gamma2;  // [C]
  bool branches = true;          // false: layer by layer always, to compare
  // Where gradients are wanted, nothing is traced and no state is kept.
  Recompute recompute = Recompute::kNone;

 private:
  torch::Tensor dropped(const torch::Tensor& x) const;
  // The definition, and the same of functions that keep less for backward (branch.h).
  torch::Tensor layer_by_layer(const torch::Tensor& x, BlockTrace* trace, const MixerCall& call);
  torch::Tensor in_branches(const torch::Tensor& x, const MixerCall& call);

  double drop_path_, dropout_;
};

// Of a model, in the order of its layers.
std::vector<std::shared_ptr<Block>> blocks_of(const torch::nn::Module& model);

}  // namespace tost
