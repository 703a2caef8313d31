// The exchangeable part of a block: how tokens of one sequence exchange information. A mixer
// registers by name in mixers.cc. Adding one touches its file and that table.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tost/engine/language_state.h"
#include "tost/engine/mixer_names.h"
#include "tost/torch.h"

namespace tost {

class Linear;

// Traces of one mixer call. Tensors a mixer does not have stay undefined.
struct MixerTrace {
  torch::Tensor w;   // projected tokens before mixing [B, N, C] (TSSA family)
  torch::Tensor pi;  // membership, sums to 1 over heads [B, H, N] (TSSA family)
  // Factor of the output of causal mixers with the addition `gate`, after its silu [B, T, C].
  torch::Tensor gate = {};
  // Only causal mixers with group means, both multiplied by their scale [B, T, C]: the mean of each
  // token's group after it, and the values of the token.
  torch::Tensor group_means = {}, values = {};
};

// The state of a causal mixer after the tokens it has read, by name; leading dimension B. TSSA's is
// constant in size, softmax's grows with the context. An empty map means that no token was read.
using MixerState = std::map<std::string, torch::Tensor>;

// The optional arguments of a call. Null means not requested, and costs nothing.
struct MixerCall {
  MixerTrace* trace = nullptr;
  // Valid tokens of each sequence, the first ones [B] int64, 1 to N; the others are padding.
  // Undefined: all are valid. Causal mixers have no padding.
  torch::Tensor lengths = {};
  // Only causal mixers. Null: x is a whole sequence and no state is returned. Otherwise the state
  // before x, replaced by that after x; no gradient flows through it.
  MixerState* state = nullptr;
  int64_t position = 0;  // of the first token of x

  // The state's tensor of this name; null without a state.
  torch::Tensor* part(const char* name) const {
    return state != nullptr ? &(*state)[name] : nullptr;
  }
};

// The arguments of a mixer's constructor. heads divides dim.
struct MixerConfig {
  int64_t dim = 0;       // C
  int64_t heads = 1;     // H
  bool qkv_bias = true;  // bias of the projection into the mixer; the one out of it always has one
};

class TokenMixer : public torch::nn::Module {
 public:
  // x [B, N, C] → [B, N, C], any floating dtype autocast allows. In causal mixers (causal_mixer.h)
  // output t depends only on tokens 0..t. The others are equivariant to permutations of the tokens,
  // except ssm and means, which read them in order, and cbsa above 64 tokens, which pools
  // neighbours. Padding changes no token of the sequence and gets no gradient from one. The output
  // at padding has no meaning; it is finite where the input is.
  virtual torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) = 0;

  // U [H, C, P] of mixers that give w and pi: head k's projection is U_k^T, so that w's part in
  // head k is x U_k, plus a bias where the released projection has one (it is affine then, and
  // outside the theory). A view of the weight, or for tssa-tied the orthonormal basis itself; with
  // gradients. Undefined for other mixers.
  virtual torch::Tensor subspaces() const { return {}; }
  // w of any tokens x [B, N, C] by the same projection, its bias included, and in causal mixers its
  // convolution, for which x is a whole sequence; undefined as above.
  virtual torch::Tensor project(const torch::Tensor&) const { return {}; }

  // Draws the weights, other than Linear's, that a new mixer leaves uninitialised, from torch's
  // default generator.
  virtual void draw_weights() {}
};

std::vector<std::string> mixer_names();
// Those whose sequences may be split among processes (token_sums_scope.h).
std::vector<std::string> split_mixer_names();

// Throws a usage Error for an unknown name, offering the nearest, and for a dropped one.
void check_mixer_name(const std::string& name);

// The same, and for an unknown name, offering the nearest. Every mixer takes every number of heads
// that divides dim.
void check_mixer(const std::string& name, const MixerConfig& config);

// Checked as above. Weights are uninitialised (see layers.h and draw_weights()).
std::shared_ptr<TokenMixer> make_mixer(const std::string& name, const MixerConfig& config);

// Multiply-adds of one call on one sequence of `tokens`, projections included; without the
// orthonormal weights of tssa-tied, which are computed once a batch.
int64_t mixer_multiply_adds(const std::string& name, const MixerConfig& config, int64_t tokens);

}  // namespace tost
