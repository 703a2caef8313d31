#include "tost/engine/language_config.h"

#include <limits>

#include "tost/engine/config_json.h"
#include "tost/engine/mixer_names.h"

namespace tost {
namespace {

constexpr int64_t kMaxBlock = 1 << 24, kMaxVocab = 1 << 24;

// Visits every field, with its key and whether JSON may omit it (see config_json.h).
constexpr auto kFields = [](auto& c, auto&& visit) {
  visit("name", c.name, true);
  visit("mixer", c.mixer, false);
  visit("vocab", c.vocab, false);
  visit("block", c.block, false);
  visit("dim", c.dim, false);
  visit("depth", c.depth, false);
  visit("heads", c.heads, false);
  visit("mlp_ratio", c.mlp_ratio, true);
  visit("layer_scale", c.layer_scale, true);
  visit("dropout", c.dropout, true);
  visit("bias", c.bias, true);
  visit("activation", c.activation, true);
  visit("positions", c.positions, true);
  visit("hybrid_every", c.hybrid_every, true);
  visit("hybrid_mixer", c.hybrid_mixer, true);
  visit("bias_positions", c.options.bias_positions, true);
  visit("conv", c.options.conv, true);
  visit("decay", c.options.decay, true);
  visit("scale_pi", c.options.scale_pi, true);
  visit("means", c.options.means, true);
  visit("gate", c.options.gate, true);
  visit("window", c.options.window, true);
  visit("attention_dropout", c.options.attention_dropout, true);
  visit("beta_range", c.options.beta_range, true);
  visit("delta_steps", c.options.delta_steps, true);
  visit("auto_encoder", c.auto_encoder, true);
};

void check_size(const LanguageConfig& c) {
  const double width = double(c.dim);
  const double parameters =
      (double(c.depth) * (3 + 2 * double(c.options.delta_steps) + 2 * c.mlp_ratio) +
       (c.auto_encoder ? 2 : 0)) *
          width * width +
      double(c.vocab + c.block) * width +
      double(c.depth) * double(c.heads) *
          double(c.options.bias_positions < 0 ? c.block : c.options.bias_positions);
  check_parameters(parameters, cat("width ", c.dim, ", depth ", c.depth, ", block ", c.block,
                                   " and ", c.vocab, " tokens"));
}

void check_options(const LanguageConfig& c) {
  check_field_range("bias_positions", c.options.bias_positions, -1, kMaxBlock);
  check_field_range("conv", c.options.conv, 0, 64);
  check_field_range("window", c.options.window, 0, kMaxBlock);
  check_field_range("beta_range", c.options.beta_range, 1, 2);
  check_field_range("delta_steps", c.options.delta_steps, 1, 8);
  check_field_choice("decay", c.options.decay, {"none", "fixed", "learned"});
  check_field_choice("means", c.options.means, {"none", "tokens", "values"});
  check_field_range("hybrid_every", c.hybrid_every, 0, kMaxDepth);
}

LanguageConfig read_config(const nlohmann::json& json, bool partial, LanguageConfig config) {
  config_from_json(json, kFields, partial, config);
  config.mixer = causal_mixer_in_use(config.mixer);
  config.hybrid_mixer = causal_mixer_in_use(config.hybrid_mixer);
  return config;
}

}  // namespace

void check_language_config(const LanguageConfig& c) {
  check_field_range("vocab", c.vocab, 1, kMaxVocab);
  check_field_range("block", c.block, 1, kMaxBlock);
  check_field_range("dim", c.dim, 1, kMaxDim);
  check_field_range("depth", c.depth, 1, kMaxDepth);
  check_field_range("heads", c.heads, 1, c.dim);
  check_heads(c.dim, c.heads);
  check_field_choice("positions", c.positions, {"learned", "none"});
  check_field_choice("activation", c.activation, {"gelu", "gelu-tanh"});
  check_options(c);
  check_mlp_ratio(c.mlp_ratio, c.dim);
  check_field_finite("layer_scale", c.layer_scale);
  check_field_share("dropout", c.dropout);
  const double of_weights = c.options.attention_dropout;
  if (!(of_weights == -1 || (of_weights >= 0 && of_weights < 1))) {
    fail_usage("Model setting 'attention_dropout' is ", of_weights,
               "; it must be at least 0 and below 1, or -1 for that of 'dropout'.");
  }
  check_size(c);
}

int64_t max_context(const LanguageConfig& c) {
  return c.positions == "learned" ? c.block : std::numeric_limits<int64_t>::max();
}

void check_predicts(const LanguageConfig& config, const std::string& what) {
  if (!config.auto_encoder) return;
  fail_usage("The model '", config.name,
             "' is an auto-encoder: it restores tokens that it has read ",
             "and predicts none, which ", what, " needs.");
}

nlohmann::json to_json(const LanguageConfig& config) {
  return config_to_json(config, kFields);
}

LanguageConfig language_config_from_json(const nlohmann::json& json) {
  return read_config(json, /*partial=*/false, {});
}

LanguageConfig language_config_from_json(const nlohmann::json& json, LanguageConfig base) {
  return read_config(json, /*partial=*/true, std::move(base));
}

}  // namespace tost
