// Token mixers, the exchangeable part of a block, by which tokens of a sequence exchange
// information. A new mixer is a file and a row of the table in mixers.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tost/torch.h"

namespace tost {

class Linear;

// The trace of one call of a mixer. Tensors that a mixer does not have stay undefined.
struct MixerTrace {
  torch::Tensor w;   // projected tokens before mixing [B, N, C] (TSSA family)
  torch::Tensor pi;  // membership, sums to 1 over heads [B, H, N] (TSSA family)
  // The factor [B, T, C] of the output, after its silu, of causal mixers with the addition `gate`.
  torch::Tensor gate = {};
  // Of causal mixers with group means, the mean of each token's group after it, and the values of
  // the token, both [B, T, C] and multiplied by their scale.
  torch::Tensor group_means = {}, values = {};
};

// The state of a causal mixer after the tokens it has read, by name; leading dimension B. The size
// of TSSA's is constant, that of softmax grows with the context. An empty map means that no token
// was read.
using MixerState = std::map<std::string, torch::Tensor>;

// The number of tokens that are read together, which limits memory for texts of any length.
inline constexpr int64_t kPieceTokens = 2048;

// The optional arguments of a call; null requests nothing.
struct MixerCall {
  MixerTrace* trace = nullptr;
  // The number of valid tokens of each sequence, [B] int64, 1 to N; the tokens after them are
  // padding. Undefined: all are valid. Causal mixers have no padding.
  torch::Tensor lengths = {};
  // For causal mixers the state before x, which is replaced by that after x; no gradient flows
  // through it. Null: x is a whole sequence.
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
  // Maps x [B, N, C] to [B, N, C], in any floating dtype that autocast allows. In causal mixers
  // (causal_mixer.h) output t depends only on tokens 0..t. The others are equivariant to
  // permutations of the tokens, except ssm and means, which read them in order, and cbsa above 64
  // tokens, which pools neighbours. Padding affects no valid token and gets no gradient from one.
  // The output at padding has no meaning, and is finite where the input is.
  virtual torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) = 0;

  // The subspaces U [H, C, P] of mixers with w and pi: w's part in head k is x U_k, plus a bias if
  // the released projection has one (which the theory does not cover). It is a view of the weight,
  // for tssa-tied the orthonormal basis, with gradients; undefined for other mixers.
  virtual torch::Tensor subspaces() const { return {}; }
  // Projects any tokens x [B, N, C] to w, with the bias, and in causal mixers with the convolution,
  // for which x is a whole sequence; undefined for mixers without w.
  virtual torch::Tensor project(const torch::Tensor&) const { return {}; }

  // Draws the weights, other than Linear's, that a new mixer leaves uninitialised, from torch's
  // default generator.
  virtual void draw_weights() {}
};

// The name of the mixer of block `index`, from 0, in a configuration with members mixer,
// hybrid_mixer and hybrid_every.
template <class Config>
const std::string& mixer_of_block(const Config& c, int64_t index) {
  const bool hybrid = c.hybrid_every > 0 && (index + 1) % c.hybrid_every == 0;
  return hybrid ? c.hybrid_mixer : c.mixer;
}

std::vector<std::string> mixer_names();
// The mixers whose sequences may be split among processes (token_sums_scope.h).
std::vector<std::string> split_mixer_names();

// The present name of a mixer that was renamed since earlier builds of 0.1.0; returns other names
// unchanged.
std::string mixer_in_use(const std::string& name);

// Throws a usage Error for an unknown name, with the nearest one, and for a dropped one.
void check_mixer_name(const std::string& name);

// Throws a usage Error for heads that do not divide dim.
void check_heads(int64_t dim, int64_t heads);

// Checks name and heads. Every mixer takes every number of heads that divides dim.
void check_mixer(const std::string& name, const MixerConfig& config);

// Makes a mixer, after check_mixer(), with uninitialised weights (see layers.h and draw_weights()).
std::shared_ptr<TokenMixer> make_mixer(const std::string& name, const MixerConfig& config);

// The multiply-adds of a call on one sequence of `tokens` with the projections, but without the
// orthonormal weights of tssa-tied, which are computed once for a batch.
int64_t mixer_multiply_adds(const std::string& name, const MixerConfig& config, int64_t tokens);

}  // namespace tost
