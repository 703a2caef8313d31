// Architecture of a causal language model, and its strict JSON form.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

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
  // First moments in addition to the second ones (TSSA): none; tokens: running membership-weighted
  // means (GroupMeans) of the projected tokens; values: of a separate projection.
  std::string means = "none";
  // Multiplies the output by a gate computed from the block's input.
  bool gate = false;
  // softmax sees this many tokens, the current one included; 0: all.
  int64_t window = 0;
  // Share of the attention weights of softmax that training drops; -1: as
  // CausalMixerConfig::dropout.
  double attention_dropout = -1;
  // Of the delta rule: β is in 0 ... beta_range (1 or 2), and a token makes delta_steps updates.
  int64_t beta_range = 1;
  int64_t delta_steps = 1;
};

struct LanguageConfig {
  std::string name = "custom";
  int64_t vocab = 50304;  // rows of the token table; at least the tokenizer's size
  int64_t block = 1024;   // training context, and with learned positions the longest possible one
  int64_t dim = 768;      // C
  int64_t depth = 12;
  int64_t heads = 12;
  double mlp_ratio = 4;
  double layer_scale = 1e-5;  // initial value of gamma1 and gamma2
  double dropout = 0;         // after the embedding and at both branches, while training
  bool bias = false;          // of Linear and LayerNorm
  // Activation of the MLP: gelu, exact as in the official code; gelu-tanh, GPT-2's approximation.
  std::string activation = "gelu";
  // "learned": one vector a position below `block`, as the official model has; "none": only the
  // mixers represent order, and the context has no limit.
  std::string positions = "learned";
  CausalMixerOptions options;
  std::string mixer = "tssa";
  // Every hybrid_every-th block (counted from 1) uses hybrid_mixer instead; 0: none.
  int64_t hybrid_every = 0;
  std::string hybrid_mixer = "softmax";
  // Instead of a language model: an MLP restores all tokens from the last one's vector and
  // sinusoidal positions (the task compression of MAD, arXiv 2403.17844).
  bool auto_encoder = false;
};

// Throws a usage Error with the reason for an impossible configuration, whatever its mixers have.
void check_language_config(const LanguageConfig& config);

// Longest possible context: the block with learned positions, else the largest int64.
int64_t max_context(const LanguageConfig& config);

nlohmann::json to_json(const LanguageConfig& config);

// Strict: a data Error for an unknown key (nearest offered), a wrong type or, without a base, a
// missing key. With `base`, missing keys keep its values. Checks no value.
LanguageConfig language_config_from_json(const nlohmann::json& json);
LanguageConfig language_config_from_json(const nlohmann::json& json, LanguageConfig base);

// Throws the usage Error that an auto-encoder does not go with `what`, which predicts tokens.
void check_predicts(const LanguageConfig& config, const std::string& what);

}  // namespace tost
