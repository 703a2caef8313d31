// The architecture of a causal language model, and its JSON form.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tost {

// Additions to the official causal mixers, all off by default, so that official weights load. No
// addition makes the size of the state depend on the context.
struct CausalMixerOptions {
  // The length of denom_bias (TSSA); -1 means the block. Later positions have bias 0.
  int64_t bias_positions = -1;
  // The taps, with the current token, of a causal convolution on projected tokens; 0: none.
  int64_t conv = 0;
  // The forgetting of the running statistics, with one rate a head: "none", "fixed" (evenly spaced
  // horizons), or "learned" (trained, initially evenly spaced).
  std::string decay = "none";
  // Multiplies memberships by H, so that a uniform membership is 1.
  bool scale_pi = false;
  // First moments in addition to second moments (TSSA): "none", or running group means of the
  // projected tokens ("tokens") or of a separate projection ("values").
  std::string means = "none";
  // Multiplies the output by a gate computed from the block's input.
  bool gate = false;
  // The number of tokens, with the current one, that softmax sees; 0: all.
  int64_t window = 0;
  // Dropout of softmax's attention weights in training; -1 means CausalMixerConfig::dropout.
  double attention_dropout = -1;
  // The delta rule has β from 0 to beta_range (1 or 2), and makes delta_steps updates a token.
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
  // The activation of the MLP: "gelu" is exact as in the official code, "gelu-tanh" is GPT-2's
  // approximation.
  std::string activation = "gelu";
  // With "learned" there is a vector for each position below `block`, as in the official model.
  // With "none" only mixers represent order, and the context has no limit.
  std::string positions = "learned";
  CausalMixerOptions options;
  std::string mixer = "tssa";
  // Every hybrid_every-th block, counted from 1, uses hybrid_mixer; 0: no block does.
  int64_t hybrid_every = 0;
  std::string hybrid_mixer = "softmax";
  // Makes the model an auto-encoder, in which an MLP restores all tokens from the last token's
  // vector and sinusoidal positions (the task compression of MAD, arXiv 2403.17844).
  bool auto_encoder = false;
};

// Throws a usage Error for an impossible configuration; does not check options of mixers.
void check_language_config(const LanguageConfig& config);

// The longest possible context: the block with learned positions, else the largest int64.
int64_t max_context(const LanguageConfig& config);

nlohmann::json to_json(const LanguageConfig& config);

// Throws a data Error for an unknown key (with the nearest one), a wrong type or a missing key.
// With `base`, missing keys have the values of `base`. Checks no value.
LanguageConfig language_config_from_json(const nlohmann::json& json);
LanguageConfig language_config_from_json(const nlohmann::json& json, LanguageConfig base);

// Throws the usage Error that an auto-encoder does not support `what`, which predicts tokens.
void check_predicts(const LanguageConfig& config, const std::string& what);

}  // namespace tost
