#include "tost/eval/official_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_value.h"
#include "tost/models/vision_presets.h"

namespace tost {
namespace {

constexpr int64_t kOfficialSide = 224;

// The value of `name` in the dict or namespace `group` of the file.
std::optional<PickleId> argument(const TorchFile& file, const char* group, const char* name) {
  const auto values = torch_field(file.tree(), file.root(), group);
  return values ? torch_field(file.tree(), *values, name) : std::nullopt;
}

std::optional<int64_t> integer_argument(const TorchFile& file, const char* group,
                                        const char* name) {
  constexpr int64_t kMost = 1'000'000'000;
  const auto id = argument(file, group, name);
  if (!id || *id == PickleTree::kNoneId) return std::nullopt;
  const auto value = torch_number(file, *id);
  if (value && *value >= 0 && *value <= double(kMost) && std::floor(*value) == *value) {
    return static_cast<int64_t>(*value);
  }
  fail_data(group, ".", name, " is no whole number from 0 to ", kMost, ".");
}

std::string text_argument(const TorchFile& file, const char* group, const char* name) {
  const auto id = argument(file, group, name);
  if (!id || !file.tree().is(*id, PickleKind::kString)) return {};
  return std::string(file.tree()[*id].text);
}

// A size that names and shapes tell; 0 where they do not.
int64_t told(const OfficialCheckpoint& checkpoint, const char* what) {
  const auto& value = checkpoint.model.at(what);
  return value.is_null() ? 0 : value.get<int64_t>();
}

// Side `d` of a tensor that the model cannot do without.
int64_t side(const OfficialCheckpoint& checkpoint, const std::string& name, size_t d) {
  const auto found = checkpoint.shapes.find(name);
  if (found == checkpoint.shapes.end()) fail_data("There is no tensor '", name, "'.");
  if (d >= found->second.size()) {
    fail_data("Tensor '", name, "' has ", found->second.size(), " dimensions, expected at least ",
              d + 1, ".");
  }
  return found->second[d];
}

bool has(const OfficialCheckpoint& checkpoint, const std::string& name) {
  return checkpoint.shapes.count(name) != 0;
}

double mlp_ratio(const OfficialCheckpoint& checkpoint, const std::string& name, int64_t dim) {
  if (dim <= 0) fail_data("Its width is ", dim, ".");
  return static_cast<double>(side(checkpoint, name, 0)) / static_cast<double>(dim);
}

std::optional<VisionConfig> named_preset(const std::string& name) {
  const auto names = vision_preset_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  return vision_preset(name);
}

int64_t heads_by_name(const std::string& mixer, const std::string& name) {
  const auto preset = named_preset(name);
  if (preset && preset->mixer == mixer) return preset->heads;
  const std::string reason =
      name.empty() ? "args.model is missing"
      : !preset    ? cat("args.model is ", shown(name), ", which is no model known here")
                   : cat("args.model is ", name, ", whose mixer is ", preset->mixer);
  fail_data("The weights of mixer ", mixer, " do not show how many attention heads there are, and ",
            reason, ".");
}

// The rest of the preset that args.model names, where it is the model itself.
void take_preset(const VisionConfig& preset, VisionConfig& c) {
  const bool same = preset.mixer == c.mixer && preset.dim == c.dim && preset.depth == c.depth &&
                    preset.heads == c.heads && preset.patch == c.patch;
  if (!same) return;
  c.name = preset.name;
  c.layer_scale = preset.layer_scale;
  c.drop_path = preset.drop_path;
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

VisionConfig official_vision_config(const OfficialCheckpoint& checkpoint) {
  const TorchFile& file = *checkpoint.file;
  const std::string name = text_argument(file, "args", "model");
  VisionConfig c;
  c.mixer = checkpoint.model.at("mixer").get<std::string>();
  c.class_blocks = told(checkpoint, "class_depth");
  if (c.class_blocks == 0) {
    fail_data("It is a ", checkpoint.model.at("family").get<std::string>(),
              " without class-attention blocks, which the models of this program have.");
  }
  c.dim = told(checkpoint, "dim");
  c.depth = told(checkpoint, "depth");
  c.patch = told(checkpoint, "patch");
  c.classes = side(checkpoint, "head.weight", 0);
  c.in_channels = side(checkpoint, "patch_embed.proj.0.0.weight", 1);
  c.mlp_ratio = mlp_ratio(checkpoint, "blocks.0.mlp.fc1.weight", c.dim);
  c.qkv_bias = has(checkpoint, "blocks.0.attn.qkv.bias");
  c.heads = told(checkpoint, "heads");
  if (c.heads == 0) c.heads = heads_by_name(c.mixer, name);
  c.image_size = integer_argument(file, "args", "input_size").value_or(kOfficialSide);
  c.tokens_norm = integer_argument(file, "args", "tokens_norm").value_or(1) != 0;
  if (const auto preset = named_preset(name)) take_preset(*preset, c);
  validate(c);
  return c;
}

LanguageConfig official_language_config(const OfficialCheckpoint& checkpoint) {
  const TorchFile& file = *checkpoint.file;
  LanguageConfig c;
  c.mixer = checkpoint.model.at("mixer").get<std::string>();
  c.dim = side(checkpoint, "transformer.wte.weight", 1);
  c.vocab = side(checkpoint, "transformer.wte.weight", 0);
  c.block = side(checkpoint, "transformer.wpe.weight", 0);
  c.depth = told(checkpoint, "depth");
  c.heads = told(checkpoint, "heads");
  for (const char* group : {"model_args", "config"}) {
    if (c.heads == 0) c.heads = integer_argument(file, group, "n_head").value_or(0);
  }
  if (c.heads == 0) {
    fail_data("The weights of mixer ", c.mixer,
              " do not show how many attention heads there are, and neither model_args nor config "
              "has n_head.");
  }
  if (checkpoint.model.at("family") == "GPT-2 (Hugging Face layout)") {
    fail_data("It is a GPT-2 in Hugging Face's layout, whose matrices lie the other way round.");
  }
  c.mlp_ratio = mlp_ratio(checkpoint, "transformer.h.0.mlp.c_fc.weight", c.dim);
  c.bias = has(checkpoint, "transformer.ln_f.bias");
  // Cropping to a shorter block leaves it at its full length.
  const std::string lengths = "transformer.h.0.attn.denom_bias";
  if (has(checkpoint, lengths) && side(checkpoint, lengths, 1) != c.block) {
    c.options.bias_positions = side(checkpoint, lengths, 1);
  }
  validate(c);
  return c;
}

}  // namespace tost
