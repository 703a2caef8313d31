#include "tost/eval/foreign_config.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/safe_text.h"
#include "tost/models/vision_presets.h"

namespace tost {
namespace {

constexpr int64_t kOfficialSide = 224;

// A size that names and shapes tell; 0 where they do not.
int64_t told(const ForeignWeights& weights, const char* what) {
  const auto& value = weights.model.at(what);
  return value.is_null() ? 0 : value.get<int64_t>();
}

// Side `d` of a tensor that the model cannot do without.
int64_t side(const ForeignWeights& weights, const std::string& name, size_t d) {
  const auto found = weights.shapes.find(name);
  if (found == weights.shapes.end()) fail_data("There is no tensor '", name, "'.");
  if (d >= found->second.size()) {
    fail_data("Tensor '", name, "' has ", found->second.size(), " dimensions, expected at least ",
              d + 1, ".");
  }
  return found->second[d];
}

bool has(const ForeignWeights& weights, const std::string& name) {
  return weights.shapes.count(name) != 0;
}

double mlp_ratio(int64_t hidden, int64_t dim) {
  if (dim <= 0) fail_data("Its width is ", dim, ".");
  return static_cast<double>(hidden) / static_cast<double>(dim);
}

std::optional<VisionConfig> named_preset(const std::string& name) {
  const auto names = vision_preset_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  return vision_preset(name);
}

int64_t heads_by_name(const std::string& mixer, const ModelFacts& facts) {
  const auto preset = named_preset(facts.model);
  if (preset && preset->mixer == mixer) return preset->heads;
  const std::string reason =
      facts.model.empty() ? cat(facts.model_key, " is missing")
      : !preset ? cat(facts.model_key, " is ", shown(facts.model), ", which is no model known here")
                : cat(facts.model_key, " is ", facts.model, ", whose mixer is ", preset->mixer);
  fail_data("The weights of mixer ", mixer, " do not show how many attention heads there are, and ",
            reason, ".");
}

// The rest of the preset that the facts name, where it is the model itself.
void take_preset(const VisionConfig& preset, VisionConfig& c) {
  const bool same = preset.mixer == c.mixer && preset.dim == c.dim && preset.depth == c.depth &&
                    preset.heads == c.heads && preset.patch == c.patch;
  if (!same) return;
  c.name = preset.name;
  c.layer_scale = preset.layer_scale;
  c.drop_path = preset.drop_path;
}

// By the names that Hugging Face gives them.
std::string activation(const std::string& name) {
  if (name.empty() || name == "gelu") return "gelu";
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return "gelu-tanh";
  fail_data("Its activation is ", shown(name), "; gelu and gelu_new are known here.");
}

}  // namespace

std::string plain_name(std::string name) {
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view prefix : {"_orig_mod.", "module."}) {
      if (!starts_with(name, prefix)) continue;
      name.erase(0, prefix.size());
      more = true;
    }
  }
  return name;
}

VisionConfig foreign_vision_config(const ForeignWeights& weights, const ModelFacts& facts) {
  VisionConfig c;
  c.mixer = weights.model.at("mixer").get<std::string>();
  c.class_blocks = told(weights, "class_depth");
  if (c.class_blocks == 0) {
    fail_data("It is a ", weights.model.at("family").get<std::string>(),
              " without class-attention blocks, which the models of this program have.");
  }
  c.dim = told(weights, "dim");
  c.depth = told(weights, "depth");
  c.patch = told(weights, "patch");
  c.classes = side(weights, "head.weight", 0);
  c.in_channels = side(weights, "patch_embed.proj.0.0.weight", 1);
  c.mlp_ratio = mlp_ratio(side(weights, "blocks.0.mlp.fc1.weight", 0), c.dim);
  c.qkv_bias = has(weights, "blocks.0.attn.qkv.bias");
  c.heads = told(weights, "heads");
  if (c.heads == 0) c.heads = heads_by_name(c.mixer, facts);
  c.image_size = facts.image_size.value_or(kOfficialSide);
  c.tokens_norm = facts.tokens_norm.value_or(true);
  if (has(weights, "registers")) c.registers = side(weights, "registers", 1);
  if (const auto preset = named_preset(facts.model)) take_preset(*preset, c);
  validate(c);
  return c;
}

bool is_transposed_gpt2(const ForeignWeights& weights) {
  return weights.model.at("family") == "GPT-2 (Hugging Face layout)";
}

LanguageConfig foreign_language_config(const ForeignWeights& weights, const ModelFacts& facts) {
  LanguageConfig c;
  c.mixer = weights.model.at("mixer").get<std::string>();
  c.dim = side(weights, "transformer.wte.weight", 1);
  c.vocab = side(weights, "transformer.wte.weight", 0);
  c.block = side(weights, "transformer.wpe.weight", 0);
  c.depth = told(weights, "depth");
  c.heads = told(weights, "heads");
  if (c.heads == 0) c.heads = facts.heads.value_or(0);
  if (c.heads == 0) {
    fail_data("The weights of mixer ", c.mixer,
              " do not show how many attention heads there are, and ", facts.no_heads, ".");
  }
  const size_t hidden_side = is_transposed_gpt2(weights) ? 1 : 0;
  c.mlp_ratio = mlp_ratio(side(weights, "transformer.h.0.mlp.c_fc.weight", hidden_side), c.dim);
  c.bias = has(weights, "transformer.ln_f.bias");
  c.activation = activation(facts.activation);
  // Cropping to a shorter block leaves it at its full length.
  const std::string lengths = "transformer.h.0.attn.denom_bias";
  if (has(weights, lengths) && side(weights, lengths, 1) != c.block) {
    c.options.bias_positions = side(weights, lengths, 1);
  }
  validate(c);
  return c;
}

}  // namespace tost
