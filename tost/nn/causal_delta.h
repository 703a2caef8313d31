// The delta rule: each head has a memory of P x P numbers. A token replaces the value under its key
// instead of adding to it (arXiv 2406.06484); optional gates forget (arXiv 2412.06464).
#pragma once

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"

namespace tost {

// Computes S_t = e^{a_t} S_{t-1} + k_t u_tᵀ with u_t = β_t (v_t - e^{a_t} S_{t-1}ᵀ k_t), and o_t =
// S_tᵀ q_t. The vectors u of a chunk of tokens solve one triangular system (the chunkwise form of
// both papers). Takes q, k, v [B, H, T, P], beta [B, H, T] in 0 ... 2, and log_decay a [B, H, T] <=
// 0 or undefined, all of one floating type. Keys must have norms of at most 1. Returns o [B, H, T,
// P]. `memory` is S [B, H, P, P] before the first token (undefined or null: zeros), and gets S
// after the last token, without gradient. Autocast is ignored. Under a TokenSumsScope and without
// `memory`, the tokens are a part of every sequence.
torch::Tensor delta_rule(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& beta, const torch::Tensor& log_decay,
                         torch::Tensor* memory);

// q, k, v = silu(conv(c_attn x)), with q and k of norm 1; β = beta_range sigmoid(beta x). The
// output of each head is divided by its root mean square. A token forgets once, makes delta_steps
// updates, each with a separate k, v and β (products of reflections, arXiv 2502.10297), and then
// reads. With beta_range 2 an update can reverse a direction (arXiv 2411.12537). With decay "fixed"
// a head has one rate, with horizons from 16 to 1,024 tokens. With "learned" the rate depends on
// the token, and initially has the values of "fixed". The state is "memory" [B, H, P, P] float32
// and "conv".
class CausalDeltaMixer : public TokenMixer {
 public:
  explicit CausalDeltaMixer(const CausalMixerConfig& config);
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;

  std::shared_ptr<Linear> c_attn;    // [(1 + 2 steps) C, C]: q, then every k, then every v
  std::shared_ptr<Linear> c_proj;    // [C, C]
  std::shared_ptr<CausalConv> conv;  // over q, k and v; null without
  std::shared_ptr<Linear> beta;      // [steps H, C] with bias
  std::shared_ptr<Linear> forget;    // [H, C]; null unless decay is learned
  std::shared_ptr<Linear> gate;      // [C, C]; null without
  torch::Tensor decay;               // [H]: -log of the rate is softplus(decay + forget x)
  torch::Tensor norm;                // [P]

 private:
  torch::Tensor log_decay(const torch::Tensor& x) const;

  CausalMixerConfig config_;
};

}  // namespace tost
