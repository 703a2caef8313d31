// The delta rule: each head has a memory of P x P numbers. A token replaces the value stored under
// its key instead of adding to it (arXiv 2406.06484); optional gates forget (arXiv 2412.06464).
#pragma once

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"

namespace tost {

// S_t = e^{a_t} S_{t-1} + k_t u_tᵀ with u_t = β_t (v_t - e^{a_t} S_{t-1}ᵀ k_t), and o_t = S_tᵀ q_t,
// by chunks of tokens whose u solve one triangular system (the chunkwise form of both papers).
// q, k, v [B, H, T, P], beta [B, H, T] in 0 ... 2, log_decay a [B, H, T] <= 0 or undefined for
// none, all of one floating type; keys of norm at most 1 keep the memory bounded. → o [B, H, T, P].
// `memory` S [B, H, P, P] before the first token (undefined: zeros), replaced by that after the
// last, without gradient; null: zeros before, nothing is kept. Autocast is ignored. Under a
// TokenSumsScope and without `memory` the tokens are a part of every sequence's.
torch::Tensor delta_rule(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& beta, const torch::Tensor& log_decay,
                         torch::Tensor* memory);

// q, k, v = silu(conv(c_attn x)), q and k of norm 1, β = beta_range sigmoid(beta x); the output is
// normalised by its root mean square a head. A token makes delta_steps updates in turn, each with
// its own k, v and β (products of reflections, arXiv 2502.10297), then reads; it forgets once. With
// beta_range 2 an update can turn a direction round (arXiv 2411.12537). decay "fixed": one rate a
// head, horizons from 16 to 1,024 tokens; "learned": a rate that depends on the token, starting
// there. State: "memory" [B, H, P, P] float32 and "conv". Models of float64 compute in it.
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
