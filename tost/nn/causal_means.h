// A causal mixer of first moments: the mean of the earlier tokens of a group. The paper does not
// have such a mixer; docs/language.md has its origin and measurements.
#pragma once

#include <cstdint>
#include <string>

#include "tost/nn/causal_mixer.h"
#include "tost/nn/layers.h"
#include "tost/ops/means.h"
#include "tost/ops/token_sums.h"
#include "tost/torch.h"

namespace tost {

// Running group means with a learned memory length: first-moment token statistics.

// The rates at which the statistics of each head forget. The initial horizons are 2 to 256 tokens,
// evenly spaced in the logarithm. "learned" registers `decay` [H] as a parameter (gamma =
// sigmoid(decay)), "fixed" as a buffer; "none" registers nothing and forgets nothing.
class ForgettingRates : public torch::nn::Module {
 public:
  ForgettingRates(int64_t heads, const std::string& kind);

  // Returns log gamma [H], at most 0; undefined for "none".
  torch::Tensor log_rates() const;

  torch::Tensor decay;
};

// Computes y_t = (base_t + m_t) silu(gate_t), or base_t + m_t without a gate. The mean m_t is scale
// * M_t / sqrt(R_t + 1e-6), with M_t = gamma M_{t-1} + pi_t v_t per channel and R_t = gamma R_{t-1}
// + pi_t^2 per head. m_t is the group's mean times the square root of the effective number of
// tokens, so that a mean of few tokens counts less. The state of group means is d + H numbers.
class GroupMeans : public torch::nn::Module {
 public:
  explicit GroupMeans(int64_t dim);

  // Returns [B, T, C] of values' dtype. `sums` [B, H, P + 1] float64, or null, is used like the
  // carry of running_sums(). Runs fused kernels if has_fused_means(), else products over chunks.
  torch::Tensor forward(const MeansCall& call, torch::Tensor* sums) const;

  // Traces the scaled means, and the scaled values from which they are made. `sums` is not changed.
  void trace(const MeansCall& call, const torch::Tensor* sums, MixerTrace& trace) const;

  // Computes forward() in ATen on any device and floating dtype, as products over chunks of tokens.
  torch::Tensor chunked(const MeansCall& call, torch::Tensor* sums) const;

  torch::Tensor scale;  // [C], starts at 1

 private:
  // Computes forward() by the fused kernels, if tokens are split among processes.
  torch::Tensor fused_part(const MeansCall& call, const TokenSums& sums) const;
};

// Computes [u, v, g] = projections of x; w = convolution of u over tokens; pi = H softmax over
// heads of a linear map of x; m = decayed group means of v (GroupMeans); out = c_proj((w + m) *
// silu(g)). Membership is used for writing only. It selects for how long a token is remembered,
// because heads forget at different rates. The state is "means" [B, H, P + 1] float64, and "conv".
class CausalMeansMixer : public TokenMixer {
 public:
  explicit CausalMeansMixer(const CausalMixerConfig& config);
  // Padding, which only the bidirectional form has, changes no mean.
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  // The subspaces of w; memberships do not depend on them, because a router computes memberships.
  torch::Tensor subspaces() const override;
  torch::Tensor project(const torch::Tensor& x) const override;

  std::shared_ptr<Linear> c_attn;    // [2 C or with the gate 3 C, C]: u, v, g
  std::shared_ptr<Linear> c_proj;    // [C, C]
  std::shared_ptr<CausalConv> conv;  // null without
  std::shared_ptr<Linear> router;    // [H, C] with bias
  std::shared_ptr<GroupMeans> means;
  std::shared_ptr<ForgettingRates> rates;
  torch::Tensor temp;  // [H], starts at 1

 protected:
  int64_t from_end_ = 0;  // heads that read from the last token back

 private:
  torch::Tensor membership(const torch::Tensor& x) const;  // [B, T, H]

  CausalMixerConfig config_;
};

// The bidirectional mixer, with learned forgetting and the gate. The first half of the heads reads
// from the first token forwards, the rest from the last valid token backwards. The initial horizons
// in each half of the heads are 2 to 256 tokens. See docs/long-sequences.md.
class MeansMixer : public CausalMeansMixer {
 public:
  explicit MeansMixer(const MixerConfig& config);
};

}  // namespace tost
