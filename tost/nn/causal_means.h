// Causal mixer on first moments: the mean of the earlier tokens of a group. Not in the paper;
// docs/language.md has its origin and measurements.
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

// How fast statistics forget, one rate a head; "none" keeps no parameter and forgets nothing. Rates
// start on a ladder of horizons from 2 to 256 tokens, evenly spaced in their logarithm. "learned"
// registers `decay` [H] as a parameter (gamma = sigmoid(decay)), "fixed" as a buffer.
class ForgettingRates : public torch::nn::Module {
 public:
  ForgettingRates(int64_t heads, const std::string& kind);

  // log gamma [H], at most 0; undefined for "none".
  torch::Tensor log_rates() const;

  torch::Tensor decay;
};

// y_t = (base_t + m_t) silu(gate_t), without a gate base_t + m_t, and m_t = scale * M_t / sqrt(R_t
// + 1e-6), with M_t = gamma M_{t-1} + pi_t v_t per channel and R_t = gamma R_{t-1} + pi_t^2 per
// head: the group's mean times the square root of the effective number of tokens. So its size does
// not depend on the length of the memory, and a mean of few tokens counts less. Not in the paper.
// State: d + H numbers.
class GroupMeans : public torch::nn::Module {
 public:
  explicit GroupMeans(int64_t dim);

  // sums [B, H, P + 1] float64 as the carry of running_sums(), or null. → [B, T, C] of values'
  // dtype. What has_fused_means() accepts runs fused kernels, everything else products over chunks.
  torch::Tensor forward(const MeansCall& call, torch::Tensor* sums) const;

  // For a trace: the scaled means, and the scaled values they are made of. `sums` as above, but it
  // keeps its value.
  void trace(const MeansCall& call, const torch::Tensor* sums, MixerTrace& trace) const;

  // The same in ATen on any device and floating dtype, as products over chunks of tokens.
  torch::Tensor chunked(const MeansCall& call, torch::Tensor* sums) const;

  torch::Tensor scale;  // [C], starts at 1

 private:
  // By the fused kernels, for the tokens of one of several places.
  torch::Tensor fused_part(const MeansCall& call, const TokenSums& sums) const;
};

// [u, v, g] = projections of x; w = convolution of u over tokens; pi = H softmax over heads of a
// linear map of x; m = decayed group means of v (GroupMeans); out = c_proj((w + m) * silu(g)).
// Membership is only used for writing: it decides how long a token is remembered, since each head
// has a different decay rate. State: "means" [B, H, P + 1] float64, and "conv".
class CausalMeansMixer : public TokenMixer {
 public:
  explicit CausalMeansMixer(const CausalMixerConfig& config);
  // Padding, which only the form in both directions has, writes nothing.
  torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) override;
  // Of w; membership comes from the router, not from them.
  torch::Tensor subspaces() const override;
  torch::Tensor project(const torch::Tensor& x) const override;
  int64_t head_count() const { return config_.heads; }

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

// The same in both directions, with learned forgetting and the gate: the first half of the heads
// reads from the first token on, the other half (the smaller one of an odd number) from the last
// valid one back. Each half's horizons start on a ladder from 2 to 256 tokens. See
// docs/long-sequences.md.
class MeansMixer : public CausalMeansMixer {
 public:
  explicit MeansMixer(const MixerConfig& config);
};

}  // namespace tost
