// Token mixers whose output depends only on the token and those before it. Each reads a whole
// sequence, or a chunk or single token after a state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"
#include "tost/torch.h"

namespace tost {

// Additions to the official causal mixers, all off by default, so that official weights load. They
// do not make states grow with the context.
struct CausalMixerOptions {
  // The length of TSSA's denom_bias; positions beyond it have bias 0. -1: the block.
  int64_t bias_positions = -1;
  // The taps of a causal depthwise convolution on the projected tokens, with the current one; 0:
  // none.
  int64_t conv = 0;
  // Exponential forgetting of the running statistics by a rate for each head: none, fixed (a ladder
  // of horizons) or learned (from that ladder on).
  std::string decay = "none";
  // Multiplies memberships by H, so that uniform ones are 1.
  bool scale_pi = false;
  // First moments in addition to TSSA's second ones: none, or running membership-weighted means
  // (GroupMeans) of the projected tokens (tokens) or of a separate projection (values).
  std::string means = "none";
  // Multiplies the output by a gate computed from the block's input.
  bool gate = false;
  // The number of tokens that softmax sees, with the current one; 0: all.
  int64_t window = 0;
  // The dropout of softmax's attention weights; -1: CausalMixerConfig::dropout.
  double attention_dropout = -1;
  // For the delta rule: β is in 0 ... beta_range (1 or 2), and a token makes delta_steps updates.
  int64_t beta_range = 1;
  int64_t delta_steps = 1;
};

// The arguments of a mixer's constructor. heads divides dim.
struct CausalMixerConfig {
  int64_t dim = 0;    // C
  int64_t heads = 1;  // H
  int64_t block = 0;  // training context
  bool bias = false;  // of the projections
  double dropout = 0;
  CausalMixerOptions options;
};

std::vector<std::string> causal_mixer_names();
// The mixers whose sequences may be split among processes (token_sums_scope.h).
std::vector<std::string> split_causal_mixer_names();
std::string causal_mixer_in_use(const std::string& name);  // as mixer_in_use()

// A short causal depthwise convolution over tokens: each channel mixes a token with the few before
// it.
class CausalConv : public torch::nn::Module {
 public:
  // Takes taps >= 1, with the current token. Draws weights uniformly from ±1/sqrt(taps), as torch
  // does for convolutions, by torch's default generator.
  CausalConv(int64_t channels, int64_t taps);

  // Maps x [B, T, C] to [B, T, C]. `past` [B, taps - 1, C] holds the tokens before x (undefined:
  // zeros), and is set to those before the next token; null: zeros.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* past = nullptr) const;

  torch::Tensor weight;  // [taps, C], the last row for the current token
};

// Registers the convolution over `channels` features if config has one; else returns null.
std::shared_ptr<CausalConv> add_conv(torch::nn::Module& mixer, int64_t channels,
                                     const CausalMixerConfig& config);
// Returns conv(x), or x if conv is null.
torch::Tensor convolved(const std::shared_ptr<CausalConv>& conv, const torch::Tensor& x,
                        const MixerCall& call);

// Registers and returns the map to the gate of `mixer` if config has one; else returns null.
std::shared_ptr<Linear> add_gate(torch::nn::Module& mixer, const CausalMixerConfig& config);
// Returns out(y), or with a gate out(y silu(gate x)), and traces the factor. y, x [B, T, C].
torch::Tensor project_gated(const torch::Tensor& y, const torch::Tensor& x, const Linear* gate,
                            const Linear& out, MixerTrace* trace);

// Throws a usage Error for an unknown name (with the nearest one) or a dropped one, heads that do
// not divide dim, or options the mixer does not have.
void check_causal_mixer(const std::string& name, const CausalMixerConfig& config);

// Checks two mixers of one model, where one of them must have each option.
void check_hybrid(const std::string& name, const std::string& other,
                  const CausalMixerConfig& config);

// `config` without the additions that the mixer does not have in hybrids.
CausalMixerConfig supported_options(const std::string& name, CausalMixerConfig config);

std::shared_ptr<TokenMixer> make_causal_mixer(const std::string& name,
                                              const CausalMixerConfig& config);

}  // namespace tost
