// The exchangeable part of a block, which exchanges information between the tokens of a sequence. A
// new mixer is a source file and a row in mixers.cc.
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

// Traces of one mixer call. Tensors that a mixer does not have stay undefined.
struct MixerTrace {
  torch::Tensor w;   // projected tokens before mixing [B, N, C] (TSSA family)
  torch::Tensor pi;  // membership, sums to 1 over heads [B, H, N] (TSSA family)
  // The gate after silu [B, T, C], of causal mixers with the addition `gate`.
  torch::Tensor gate = {};
  // For causal mixers with group means [B, T, C]: the group's mean after each token and the token's
  // values, both times the scale.
  torch::Tensor group_means = {}, values = {};
};

// The tensors of the state of a causal mixer, by name, with first dimension B. The state of TSSA
// has a constant size; the state of softmax grows. An empty map means that no token was read.
using MixerState = std::map<std::string, torch::Tensor>;

// The optional arguments of a call. A null trace or state is not requested, and takes no time.
struct MixerCall {
  MixerTrace* trace = nullptr;
  // The number of valid tokens of each sequence [B] int64, 1 to N; later tokens are padding.
  // Undefined: all are valid. Causal mixers have no padding.
  torch::Tensor lengths = {};
  // Only causal mixers. The state before x, which is replaced by the state after x, without
  // gradient. Null means that x is a whole sequence and no state is returned.
  MixerState* state = nullptr;
  int64_t position = 0;  // of the first token of x

  // The state's tensor with this name; null if there is no state.
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
  // Maps x [B, N, C] to [B, N, C] in any floating dtype that autocast allows. In causal mixers
  // (causal_mixer.h) output t depends only on tokens 0..t. Other mixers are equivariant to
  // permutations of the tokens, except ssm, means, and cbsa above 64 tokens. Padding changes no
  // valid token and gets no gradient from one. The output at padding has no meaning, but is finite
  // if the input is finite.
  virtual torch::Tensor forward(const torch::Tensor& x, const MixerCall& call) = 0;

  // The projections U [H, C, P] of mixers that have w and pi: w's part in head k is x U_k, plus a
  // bias if the projection has one. The result is a view of the weight, or the basis of tssa-tied;
  // with gradients. Undefined for other mixers.
  virtual torch::Tensor subspaces() const { return {}; }
  // Projects tokens x [B, N, C] to w, with bias and convolution (x must then be a whole sequence);
  // undefined for mixers without w.
  virtual torch::Tensor project(const torch::Tensor&) const { return {}; }

  // Draws, by torch's default generator, the uninitialised weights of a new mixer except those of
  // Linear.
  virtual void draw_weights() {}
};

// The mixers whose sequences may be split among processes (token_sums_scope.h).
std::vector<std::string> split_mixer_names(bool causal);

// Throws a usage Error for an unknown name, with the nearest name, and for a dropped one.
void check_mixer_name(const std::string& name);

// Checks name and heads (check_heads()): every mixer takes any number that divides dim.
// Weights are uninitialised (see layers.h and draw_weights()).
std::shared_ptr<TokenMixer> make_mixer(const std::string& name, const MixerConfig& config);

// The multiply-adds of a call on one sequence of `tokens` tokens, with projections. The QR factor
// of tssa-tied, computed once a batch, is not counted.
int64_t mixer_multiply_adds(const std::string& name, const MixerConfig& config, int64_t tokens);

}  // namespace tost
