#include "tost/kinds/sequence/config.h"

#include "tost/engine/config_json.h"
#include "tost/nn/token_mixer.h"

namespace tost {
namespace {

constexpr int64_t kMaxLength = 1 << 24, kMaxVocab = 1 << 24, kMaxClasses = 1'000'000;

// Visits every field, with its key and whether JSON may omit it (see config_json.h).
constexpr auto kFields = [](auto& c, auto&& visit) {
  visit("name", c.name, true);
  visit("mixer", c.mixer, false);
  visit("vocab", c.vocab, false);
  visit("max_length", c.max_length, false);
  visit("dim", c.dim, false);
  visit("depth", c.depth, false);
  visit("heads", c.heads, false);
  visit("mlp_hidden", c.mlp_hidden, true);
  visit("classes", c.classes, false);
  visit("pairs", c.pairs, true);
  visit("pool", c.pool, true);
  visit("positions", c.positions, true);
  visit("layer_scale", c.layer_scale, true);
  visit("dropout", c.dropout, true);
  visit("qkv_bias", c.qkv_bias, true);
  visit("hybrid_every", c.hybrid_every, true);
  visit("hybrid_mixer", c.hybrid_mixer, true);
  visit("mlp", c.mlp, true);
};

void check_size(const SequenceConfig& c) {
  const double width = double(c.dim), hidden = double(mlp_hidden(c));
  const double positions = double(position_count(c));
  const double head =
      double(c.classes) * (c.pairs ? hidden : width) + (c.pairs ? 4 * width * hidden : 0);
  const double parameters = double(c.depth) * width * (4 * width + 2 * hidden) +
                            (double(c.vocab) + positions) * width + head;
  check_parameters(parameters, cat("width ", c.dim, ", depth ", c.depth, ", ", c.vocab,
                                   " tokens and ", c.max_length, " positions"));
}

SequenceConfig read_config(const nlohmann::json& json, bool partial, SequenceConfig config) {
  config_from_json(json, kFields, partial, config);
  config.mixer = mixer_in_use(config.mixer);
  config.hybrid_mixer = mixer_in_use(config.hybrid_mixer);
  return config;
}

}  // namespace

int64_t mlp_hidden(const SequenceConfig& c) {
  return c.mlp_hidden > 0 ? c.mlp_hidden : 4 * c.dim;
}

int64_t position_count(const SequenceConfig& c) {
  return c.positions == "learned" ? c.max_length + (c.pool == "class" ? 1 : 0) : 0;
}

void validate(const SequenceConfig& c) {
  check_field_range("vocab", c.vocab, 2, kMaxVocab);
  check_field_range("max_length", c.max_length, 1, kMaxLength);
  check_field_range("dim", c.dim, 1, kMaxDim);
  check_field_range("depth", c.depth, 1, kMaxDepth);
  check_field_range("heads", c.heads, 1, c.dim);
  check_field_range("mlp_hidden", c.mlp_hidden, 0, 64 * kMaxDim);
  check_field_range("classes", c.classes, 1, kMaxClasses);
  check_field_range("hybrid_every", c.hybrid_every, 0, kMaxDepth);
  check_field_choice("pool", c.pool, {"class", "mean"});
  check_field_choice("positions", c.positions, {"learned", "sinusoidal", "none"});
  check_mlp(c.mlp);
  check_mixer_name(c.mixer);
  check_mixer_name(c.hybrid_mixer);
  check_heads(c.dim, c.heads);
  check_field_finite("layer_scale", c.layer_scale);
  check_field_share("dropout", c.dropout);
  check_size(c);
}

nlohmann::json to_json(const SequenceConfig& config) {
  return config_to_json(config, kFields);
}

SequenceConfig sequence_config_from_json(const nlohmann::json& json) {
  return read_config(json, /*partial=*/false, {});
}

SequenceConfig sequence_config_from_json(const nlohmann::json& json, SequenceConfig base) {
  return read_config(json, /*partial=*/true, std::move(base));
}

}  // namespace tost
