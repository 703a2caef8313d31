#include <algorithm>

#include "tost/base/error.h"
#include "tost/io/safe_text.h"
#include "tost/kinds/vision/config.h"

namespace tost {
namespace {

constexpr int64_t kOfficialSide = 224;

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
      : !preset
          ? cat(facts.model_key, " is ", shown(facts.model), ", which is not a model known here")
          : cat(facts.model_key, " is ", facts.model, ", whose mixer is ", preset->mixer);
  fail_data("The weights of mixer ", mixer, " do not show how many attention heads there are, and ",
            reason, ".");
}

// Takes the remaining settings from the preset that the facts name, if the model fits the preset.
void take_preset(const VisionConfig& preset, VisionConfig& c) {
  const bool same = preset.mixer == c.mixer && preset.dim == c.dim && preset.depth == c.depth &&
                    preset.heads == c.heads && preset.patch == c.patch;
  if (!same) return;
  c.name = preset.name;
  c.layer_scale = preset.layer_scale;
  c.drop_path = preset.drop_path;
}

}  // namespace

VisionConfig foreign_vision_config(const ForeignModel& weights, const ModelFacts& facts) {
  VisionConfig c;
  c.mixer = weights.model.at("mixer").get<std::string>();
  c.class_blocks = weights.size("class_depth");
  if (c.class_blocks == 0) {
    fail_data("It is a ", weights.model.at("family").get<std::string>(),
              " without class-attention blocks, which the models of this program have.");
  }
  c.dim = weights.size("dim");
  c.depth = weights.size("depth");
  c.patch = weights.size("patch");
  c.classes = weights.side("head.weight", 0);
  c.in_channels = weights.side("patch_embed.proj.0.0.weight", 1);
  c.mlp_ratio = foreign_mlp_ratio(weights.side("blocks.0.mlp.fc1.weight", 0), c.dim);
  c.qkv_bias = weights.has("blocks.0.attn.qkv.bias");
  c.heads = weights.size("heads");
  if (c.heads == 0) c.heads = heads_by_name(c.mixer, facts);
  c.image_size = facts.image_size.value_or(kOfficialSide);
  c.tokens_norm = facts.tokens_norm.value_or(true);
  if (weights.has("registers")) c.registers = weights.side("registers", 1);
  if (const auto preset = named_preset(facts.model)) take_preset(*preset, c);
  return c;
}

}  // namespace tost
