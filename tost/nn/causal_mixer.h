// Token mixers whose output depends only on the current and earlier tokens. A mixer continues from
// a state with a whole sequence, a chunk or a single token.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tost/engine/language_config.h"
#include "tost/nn/layers.h"
#include "tost/nn/token_mixer.h"
#include "tost/torch.h"

namespace tost {

// The arguments of a mixer's constructor. heads divides dim.
struct CausalMixerConfig {
  int64_t dim = 0;    // C
  int64_t heads = 1;  // H
  int64_t block = 0;  // training context
  bool bias = false;  // of the projections
  double dropout = 0;
  CausalMixerOptions options;
};

// A short causal depthwise convolution: each channel mixes a token with a few earlier ones.
class CausalConv : public torch::nn::Module {
 public:
  // taps >= 1 counts the current token. Draws weights uniformly in ±1/sqrt(taps), as torch does for
  // convolutions, from torch's default generator.
  CausalConv(int64_t channels, int64_t taps);

  // Maps x [B, T, C] to [B, T, C]. `past` [B, taps - 1, C] holds the tokens before x (undefined or
  // null: zeros), and gets the last tokens for the next call.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* past = nullptr) const;

  torch::Tensor weight;  // [taps, C], the last row for the current token
};

// Registers the convolution over `channels` projected features; null if config has none.
std::shared_ptr<CausalConv> add_conv(torch::nn::Module& mixer, int64_t channels,
                                     const CausalMixerConfig& config);
// Returns conv(x), or x if conv is null.
torch::Tensor convolved(const std::shared_ptr<CausalConv>& conv, const torch::Tensor& x,
                        const MixerCall& call);

// Registers and returns the map into the gate of `mixer`; null if config has no gate.
std::shared_ptr<Linear> add_gate(torch::nn::Module& mixer, const CausalMixerConfig& config);
// Returns out(y), or with a gate out(y silu(gate x)), and sets trace->gate to silu(gate x). y and x
// are [B, T, C].
torch::Tensor project_gated(const torch::Tensor& y, const torch::Tensor& x, const Linear* gate,
                            const Linear& out, MixerTrace* trace);

// Throws a usage Error for an unknown or dropped name, for heads that do not divide dim, and for
// options that the mixer does not have.
void check_causal_mixer(const std::string& name, const CausalMixerConfig& config);

// Checks the two mixers of a hybrid: at least one mixer must have each option.
void check_hybrid(const std::string& name, const std::string& other,
                  const CausalMixerConfig& config);

// Removes from `config` the additions that the mixer does not have in hybrids.
CausalMixerConfig supported_options(const std::string& name, CausalMixerConfig config);

std::shared_ptr<TokenMixer> make_causal_mixer(const std::string& name,
                                              const CausalMixerConfig& config);

}  // namespace tost
