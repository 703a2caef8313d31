// Token mixers whose output depends only on the token and those before it. Each runs a whole
// sequence, a chunk of it or a single token, from the state before it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

std::vector<std::string> causal_mixer_names();
// Those whose sequences may be split among processes (token_sums_scope.h).
std::vector<std::string> split_causal_mixer_names();

// A short causal depthwise convolution over tokens: each channel mixes a token with the few before
// it.
class CausalConv : public torch::nn::Module {
 public:
  // taps >= 1, the current token included. Starts uniform in ±1/sqrt(taps), torch's choice for
  // convolutions, drawn from its default generator.
  CausalConv(int64_t channels, int64_t taps);

  // x [B, T, C] → [B, T, C]. `past` holds the taps - 1 tokens before x [B, taps - 1, C] (undefined:
  // zeros) and becomes those before the next token; null: zeros before, nothing is returned.
  torch::Tensor forward(const torch::Tensor& x, torch::Tensor* past = nullptr) const;

  torch::Tensor weight;  // [taps, C], the last row for the current token
};

// Registers the convolution over `channels` projected features where config has one, else null.
std::shared_ptr<CausalConv> add_conv(torch::nn::Module& mixer, int64_t channels,
                                     const CausalMixerConfig& config);
// conv(x), or x where conv is null.
torch::Tensor convolved(const std::shared_ptr<CausalConv>& conv, const torch::Tensor& x,
                        const MixerCall& call);

// Registers and gives the map into the gate of `mixer` where config has one, else null.
std::shared_ptr<Linear> add_gate(torch::nn::Module& mixer, const CausalMixerConfig& config);
// out(y), or with the gate out(y silu(gate x)), where trace->gate gets the factor. y, x [B, T, C].
torch::Tensor project_gated(const torch::Tensor& y, const torch::Tensor& x, const Linear* gate,
                            const Linear& out, MixerTrace* trace);

// Throws a usage Error for an unknown name (with the nearest one) or a dropped one, heads that do
// not divide dim, or options the mixer does not have.
void check_causal_mixer(const std::string& name, const CausalMixerConfig& config);

// The same for two mixers in one model, where each option must be one that either has.
void check_hybrid(const std::string& name, const std::string& other,
                  const CausalMixerConfig& config);

// `config` without the additions that the mixer does not have in hybrids.
CausalMixerConfig supported_options(const std::string& name, CausalMixerConfig config);

std::shared_ptr<TokenMixer> make_causal_mixer(const std::string& name,
                                              const CausalMixerConfig& config);

}  // namespace tost
