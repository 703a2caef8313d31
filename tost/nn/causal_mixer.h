// The exchangeable part of a causal block: how a token learns from those before it. Every mixer
// runs a whole sequence, a chunk of it or a single token, given the state that came before.
// A mixer registers by name in causal_mixer.cc; adding one touches its own file and that table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tost/nn/token_mixer.h"
#include "tost/torch.h"

namespace tost {

// Additions to the official causal mixers, all off by default, so that official weights load. All
// but the window of softmax keep the state independent of the context.
struct CausalMixerOptions {
  // Length of denom_bias (TSSA); positions beyond it have bias 0. -1: the block.
  int64_t bias_positions = -1;
  // Taps of a causal depthwise convolution on the projected tokens, the current one included; 0:
  // none.
  int64_t conv = 0;
  // Exponential forgetting of the running statistics, one rate a head: none, fixed (a ladder of
  // horizons, not trained) or learned (starting from that ladder).
  std::string decay = "none";
  // Membership times H, so that a uniform one is 1.
  bool scale_pi = false;
  // First moments beside the second ones (TSSA): none; tokens: running membership-weighted means
  // (GroupMeans) of the projected tokens; values: of a projection of their own.
  std::string means = "none";
  // Multiplies the output by a gate computed from the block's input.
  bool gate = false;
  // softmax sees this many tokens, the current one included; 0: all.
  int64_t window = 0;
};

// What a mixer is built from. heads divides dim.
struct CausalMixerConfig {
  int64_t dim = 0;    // C
  int64_t heads = 1;  // H
  int64_t block = 0;  // training context
  bool bias = false;  // of the projections
  double dropout = 0;
  CausalMixerOptions options;
};

// What a mixer remembers of the tokens it has seen, by name; leading dimension B. TSSA's is
// constant in size, softmax's grows with the context. An empty map stands for "nothing seen".
using MixerState = std::map<std::string, torch::Tensor>;

struct CausalCall {
  MixerTrace* trace = nullptr;  // null: not wanted
  // Null: x is a whole sequence and nothing is kept. Otherwise the state before x, replaced by that
  // after x; no gradient flows through it.
  MixerState* state = nullptr;
  int64_t position = 0;  // of the first token of x
  // [1] int64 on the device of x, which has one token: its position, in place of the one above.
  // What is queued then serves every position.
  const torch::Tensor* place = nullptr;
};

class CausalMixer : public torch::nn::Module {
 public:
  // x [B, T, C] → [B, T, C]. Output t depends on tokens 0..t alone.
  virtual torch::Tensor forward(const torch::Tensor& x, const CausalCall& call) = 0;

  // As in TokenMixer, for calls without trace and state.
  virtual MixerMaps maps() const { return {}; }
  virtual torch::Tensor between(const torch::Tensor& /*w*/) { return {}; }

  // As in TokenMixer, for mixers that give w and pi. Where there is a convolution, w is that of
  // x U + bias over the tokens; project() takes x for a whole sequence.
  virtual torch::Tensor subspaces() const { return {}; }
  virtual torch::Tensor project(const torch::Tensor&) const { return {}; }
};

std::vector<std::string> causal_mixer_names();
// Those whose sequences may lie on several processes (token_sums_scope.h).
std::vector<std::string> split_causal_mixer_names();

// Throws a usage Error for an unknown name (with the nearest one), heads that do not divide dim, or
// options the mixer does not have.
void check_causal_mixer(const std::string& name, const CausalMixerConfig& config);

// The same for two mixers in one model, where each option must be one that either has.
void check_hybrid(const std::string& name, const std::string& other,
                  const CausalMixerConfig& config);

// `config` without the additions that the mixer does not have, for hybrids.
CausalMixerConfig own_options(const std::string& name, CausalMixerConfig config);

std::shared_ptr<CausalMixer> make_causal_mixer(const std::string& name,
                                               const CausalMixerConfig& config);

}  // namespace tost
