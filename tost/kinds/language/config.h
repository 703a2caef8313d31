// Architecture of a causal language model, and its strict JSON form.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tost/nn/causal_mixer.h"

namespace tost {

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

// Throws a usage Error with the reason for an impossible configuration.
void validate(const LanguageConfig& config);

nlohmann::json to_json(const LanguageConfig& config);

// Strict: a data Error for an unknown key (nearest offered), a wrong type or, without a base, a
// missing key. With `base`, missing keys keep its values. Does not validate().
LanguageConfig language_config_from_json(const nlohmann::json& json);
LanguageConfig language_config_from_json(const nlohmann::json& json, LanguageConfig base);

// Throws the usage Error that an auto-encoder does not go with `what`, which predicts tokens.
void check_predicts(const LanguageConfig& config, const std::string& what);

// The arguments of its mixers' constructors.
CausalMixerConfig mixer_config(const LanguageConfig& config);

}  // namespace tost
