// The architecture of a causal language model, and its JSON form.
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
  // Activation of the MLP: gelu, exact as in the official code, or gelu-tanh as in GPT-2.
  std::string activation = "gelu";
  // "learned" has a vector for each position below `block`, as the official model; with "none" only
  // mixers represent order, and the context has no limit.
  std::string positions = "learned";
  CausalMixerOptions options;
  std::string mixer = "tssa";
  // Every hybrid_every-th block (counted from 1) uses hybrid_mixer instead; 0: none.
  int64_t hybrid_every = 0;
  std::string hybrid_mixer = "softmax";
  // Makes an auto-encoder instead of a language model: an MLP restores all tokens from the last
  // one's vector and sinusoidal positions (the task compression of MAD, arXiv 2403.17844).
  bool auto_encoder = false;
};

// Throws a usage Error with the reason for an impossible configuration.
void validate(const LanguageConfig& config);

nlohmann::json to_json(const LanguageConfig& config);

// Reads a configuration, without validate(). Throws a data Error for an unknown key (with the
// nearest), a wrong type or a missing key; with `base`, missing keys keep its values.
LanguageConfig language_config_from_json(const nlohmann::json& json);
LanguageConfig language_config_from_json(const nlohmann::json& json, LanguageConfig base);

// Throws a usage Error for an auto-encoder, because `what` needs a model that predicts tokens.
void check_predicts(const LanguageConfig& config, const std::string& what);

// The arguments of the constructors of the model's mixers.
CausalMixerConfig mixer_config(const LanguageConfig& config);

}  // namespace tost
