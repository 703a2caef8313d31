// The configuration of a classifier of token sequences, its checks and its JSON form.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tost {

struct SequenceConfig {
  std::string name = "custom";  // preset it came from; not interpreted
  std::string mixer = "tssa";   // see mixer_names()
  int64_t vocab = 257;          // rows of the token table; id 0 is padding
  // The longest sequence in tokens, without the class token. With learned positions the length is a
  // limit; else training truncates data to the length.
  int64_t max_length = 1024;
  int64_t dim = 128;  // C
  int64_t depth = 4;
  int64_t heads = 4;         // H, divides dim
  std::string mlp = "gelu";  // gelu, ista or tied, see nn/block.h
  int64_t mlp_hidden = 0;    // 0: four times dim
  int64_t classes = 2;
  // Classifies two documents: the same blocks read both, and the head gets both vectors, their
  // product and their difference.
  bool pairs = false;
  std::string pool = "class";  // class: a class token in front; mean: of the sequence's tokens
  std::string positions = "learned";  // learned, sinusoidal, none
  double layer_scale = 1;             // initial value of gamma1 and gamma2
  double dropout = 0;                 // after the embedding and at both branches, while training
  bool qkv_bias = true;
  // Every hybrid_every-th block, counted from 1, uses hybrid_mixer; 0: no block does.
  int64_t hybrid_every = 0;
  std::string hybrid_mixer = "softmax";

  bool operator==(const SequenceConfig&) const = default;
};

// The width of the MLPs; a default width if the configuration has 0.
int64_t mlp_hidden(const SequenceConfig& config);
// The number of learned positions: max_length, and one for the class token; 0 if positions are not
// learned.
int64_t position_count(const SequenceConfig& config);

// Throws a usage Error with the reason if `config` describes no possible model.
void validate(const SequenceConfig& config);

nlohmann::json to_json(const SequenceConfig& config);

// Reads a configuration, without validate(). Throws a data Error for an unknown key (with the
// nearest one), a wrong type or a missing key; with `base`, missing keys have its values.
SequenceConfig sequence_config_from_json(const nlohmann::json& json);
SequenceConfig sequence_config_from_json(const nlohmann::json& json, SequenceConfig base);

}  // namespace tost
