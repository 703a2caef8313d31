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
  // Longest sequence in tokens, the class token not counted. A limit only with learned positions;
  // without, what data is cut to in training.
  int64_t max_length = 1024;
  int64_t dim = 128;  // C
  int64_t depth = 4;
  int64_t heads = 4;       // H, divides dim
  int64_t mlp_hidden = 0;  // 0: four times dim
  int64_t classes = 2;
  // Two documents, each read by the same blocks; the head sees both vectors, their product and
  // their difference.
  bool pairs = false;
  std::string pool = "class";  // class: a class token in front; mean: of the sequence's tokens
  std::string positions = "learned";  // learned, sinusoidal, none
  double layer_scale = 1;             // initial value of gamma1 and gamma2
  double dropout = 0;                 // after the embedding and at both branches, while training
  bool qkv_bias = true;
  // Every hybrid_every-th block (counted from 1) uses hybrid_mixer instead; 0: none.
  int64_t hybrid_every = 0;
  std::string hybrid_mixer = "softmax";

  bool operator==(const SequenceConfig&) const = default;
};

// Width of the MLPs, with 0 resolved.
int64_t mlp_hidden(const SequenceConfig& config);
// Rows of a table of learned positions: max_length, and one for the class token; 0 where positions
// are not learned.
int64_t position_count(const SequenceConfig& config);

// Throws a usage Error with the reason when no model can be built from `config`.
void validate(const SequenceConfig& config);

nlohmann::json to_json(const SequenceConfig& config);

// Strict, as language_config_from_json: a data Error for an unknown key (nearest offered), a wrong
// type or, without a base, a missing key. With `base`, missing keys keep its values. Does not
// validate().
SequenceConfig sequence_config_from_json(const nlohmann::json& json);
SequenceConfig sequence_config_from_json(const nlohmann::json& json, SequenceConfig base);

}  // namespace tost
