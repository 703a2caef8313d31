#include "tost/engine/foreign_model.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Json = nlohmann::ordered_json;

// The key in a torch file for this program's description of the model as JSON.
constexpr char kDescriptionKey[] = "tost";

class NamedWeights {
 public:
  NamedWeights(const NamedShapes& shapes, std::string prefix)
      : shapes_(shapes), prefix_(std::move(prefix)) {}

  const std::vector<int64_t>* find(const std::string& name) const {
    const auto found = shapes_.find(prefix_ + name);
    return found == shapes_.end() ? nullptr : &found->second;
  }
  // The size of dimension `d` of a tensor; null if there is no such tensor or dimension.
  Json side(const std::string& name, size_t d) const {
    const auto* shape = find(name);
    return shape != nullptr && d < shape->size() ? Json((*shape)[d]) : Json();
  }
  // Counts the names before0after, before1after, … up to the first one that is missing.
  int64_t count(const std::string& before, const std::string& after) const {
    int64_t n = 0;
    while (find(before + cat(n) + after) != nullptr) ++n;
    return n;
  }
  const std::string& prefix() const { return prefix_; }

 private:
  const NamedShapes& shapes_;
  std::string prefix_;
};

// The patch of a stem of convolutions, in which each stage halves the side and each later stage
// doubles the width. A stem of one convolution has patches of the size of its kernel.
Json patch_side(const NamedWeights& weights, const std::string& projection) {
  if (weights.find("patch_embed.proj.weight") != nullptr) {
    return weights.side("patch_embed.proj.weight", 2);
  }
  const Json first = weights.side("patch_embed.proj.0.0.weight", 0);
  const Json last = weights.side("blocks.0" + projection, 1);
  if (first.is_null() || last.is_null()) return Json();
  const auto narrow = first.get<int64_t>(), wide = last.get<int64_t>();
  constexpr int64_t kMaxSide = 4096;
  if (narrow < 1 || wide < narrow || wide % narrow != 0 || wide / narrow > kMaxSide / 2)
    return Json();
  return 2 * (wide / narrow);
}

Json vision(const NamedWeights& weights) {
  const bool means = weights.find("blocks.0.attn.router.weight") != nullptr;
  const bool tssa = !means && weights.find("blocks.0.attn.temp") != nullptr;
  const std::string projection = means ? ".attn.c_attn.weight" : ".attn.qkv.weight";
  const bool xca = weights.find("blocks.0.attn.temperature") != nullptr;
  const int64_t class_blocks = weights.count("cls_attn_blocks.", ".attn.qkv.weight");
  const bool sequence = weights.find("embed.tokens.weight") != nullptr;
  const char* family = sequence            ? "ToST sequence classifier"
                       : class_blocks == 0 ? (tssa ? "ToST image classifier" : "timm ViT")
                       : tssa || means     ? "ToST image classifier"
                       : xca               ? "XCiT image classifier"
                                           : "ViT image classifier with class attention";
  Json model;
  model["prefix"] = escaped(weights.prefix());
  model["family"] = family;
  model["mixer"] = means ? "means" : tssa ? "tssa" : xca ? "xca" : "softmax";
  model["dim"] = weights.side("blocks.0" + projection, 1);
  model["depth"] = weights.count("blocks.", projection);
  model["class_depth"] = class_blocks;
  model["heads"] =
      weights.side(tssa || means ? "blocks.0.attn.temp" : "blocks.0.attn.temperature", 0);
  if (sequence) {
    model["vocab"] = weights.side("embed.tokens.weight", 0);
  } else {
    model["patch"] = patch_side(weights, projection);
  }
  model["classes"] = weights.side("head.weight", 0);
  return model;
}

Json language(const NamedWeights& weights) {
  const bool tssa = weights.find("h.0.attn.temp") != nullptr;
  const Json rows = weights.side("h.0.attn.c_attn.weight", 0);
  const Json dim = weights.side("wte.weight", 1);
  // Reads transposed sizes, because Hugging Face stores the matrices of GPT-2 transposed.
  const bool transposed = !tssa && rows == dim;
  Json model;
  model["prefix"] = escaped(weights.prefix());
  model["family"] = tssa         ? "ToST language model"
                    : transposed ? "GPT-2 (Hugging Face layout)"
                                 : "GPT (nanoGPT layout)";
  model["mixer"] = tssa ? "tssa" : "softmax";
  model["dim"] = dim;
  model["depth"] = weights.count("h.", ".attn.c_attn.weight");
  model["heads"] = weights.side("h.0.attn.temp", 0);
  model["block"] = weights.side("wpe.weight", 0);
  model["vocab"] = weights.side("wte.weight", 0);
  return model;
}

constexpr int64_t kMost = 1'000'000'000;

// The value of `name` in the dict or namespace `group` of the file.
std::optional<PickleId> argument(const TorchFile& file, const char* group, const char* name) {
  const auto values = torch_field(file.tree(), file.root(), group);
  return values ? torch_field(file.tree(), *values, name) : std::nullopt;
}

std::optional<int64_t> integer_argument(const TorchFile& file, const char* group,
                                        const char* name) {
  const auto id = argument(file, group, name);
  if (!id || *id == PickleTree::kNoneId) return std::nullopt;
  const auto value = torch_number(file.tree(), *id);
  if (value && *value >= 0 && *value <= double(kMost) && std::floor(*value) == *value) {
    return static_cast<int64_t>(*value);
  }
  fail_data(group, ".", name, " is not an integer from 0 to ", kMost, ".");
}

std::string text_of(const TorchFile& file, std::optional<PickleId> id) {
  if (!id || !file.tree().is(*id, PickleKind::kString)) return {};
  return std::string(file.tree()[*id].text);
}

// An integer from 0 to kMost.
int64_t whole(const json& value, const char* key) {
  if (value.is_number_integer() && value >= 0 && value <= kMost) return value.get<int64_t>();
  fail_data("it has ", json_text(value), " for ", key, "; an integer from 0 to ", kMost,
            " is expected.");
}

// The value under a key of a JSON object; null if there is none.
json value_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}
void take(const json& object, const char* key, std::optional<int64_t>& field) {
  if (const json value = value_of(object, key); !value.is_null()) field = whole(value, key);
}
void take(const json& object, const char* key, std::optional<double>& field) {
  if (const json value = value_of(object, key); !value.is_null()) field = value.get<double>();
}
void take(const json& object, const char* key, std::string& field) {
  if (const json value = value_of(object, key); !value.is_null()) value.get_to(field);
}

void take_timm(const json& config, ModelFacts& facts) {
  take(config, "architecture", facts.model);
  if (const auto names = config.find("label_names"); names != config.end() && names->is_array()) {
    names->get_to(facts.classes);
  }
  const auto found = config.find("pretrained_cfg");
  if (found == config.end() || !found->is_object()) return;
  const json& trained = *found;
  if (const auto size = trained.find("input_size"); size != trained.end()) {
    facts.image_size = whole(size->at(2), "input_size");
  }
  take(trained, "interpolation", facts.interpolation);
  take(trained, "crop_pct", facts.crop_ratio);
  for (const auto& [key, field] : {std::pair{"mean", &facts.mean}, {"std", &facts.std}}) {
    if (const auto value = trained.find(key); value != trained.end()) value->get_to(*field);
  }
}

}  // namespace

nlohmann::ordered_json recognise_models(const NamedShapes& shapes) {
  constexpr size_t kMaxModels = 16;
  const std::string image = "blocks.0.attn.qkv.weight", means = "blocks.0.attn.c_attn.weight",
                    text = "h.0.attn.c_attn.weight";
  Json models = Json::array();
  for (const auto& [name, shape] : shapes) {
    if (models.size() >= kMaxModels) break;
    for (const std::string& anchor : {image, means, text}) {
      if (!ends_with(name, anchor)) continue;
      const std::string prefix = name.substr(0, name.size() - anchor.size());
      if (!prefix.empty() && prefix.back() != '.') continue;
      models.push_back(anchor == text ? language({shapes, prefix}) : vision({shapes, prefix}));
    }
  }
  return models;
}

int64_t ForeignModel::size(const char* what) const {
  const auto& value = model.at(what);
  return value.is_null() ? 0 : value.get<int64_t>();
}

int64_t ForeignModel::side(const std::string& name, size_t d) const {
  const auto found = shapes.find(name);
  if (found == shapes.end()) fail_data("There is no tensor '", name, "'.");
  if (d >= found->second.size()) {
    fail_data("Tensor '", name, "' has ", found->second.size(), " dimensions, expected at least ",
              d + 1, ".");
  }
  return found->second[d];
}

double foreign_mlp_ratio(int64_t hidden, int64_t dim) {
  if (dim <= 0) fail_data("Its width is ", dim, ".");
  return static_cast<double>(hidden) / static_cast<double>(dim);
}

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

ModelFacts torch_facts(const TorchFile& file) {
  ModelFacts facts;
  facts.model = text_of(file, argument(file, "args", "model"));
  facts.model_key = "args.model";
  facts.image_size = integer_argument(file, "args", "input_size");
  if (const auto norm = integer_argument(file, "args", "tokens_norm"))
    facts.tokens_norm = *norm != 0;
  facts.no_heads = "neither model_args nor config has n_head";
  for (const char* group : {"config", "model_args"}) {
    if (const auto heads = integer_argument(file, group, "n_head")) facts.heads = heads;
  }
  const std::string description =
      text_of(file, torch_field(file.tree(), file.root(), kDescriptionKey));
  if (!description.empty()) {
    facts.description = metadata_json({{kDescriptionKey, description}}, kDescriptionKey, "it");
  }
  return facts;
}

ModelFacts config_file_facts(const fs::path& path) {
  ModelFacts facts;
  facts.model_key = "architecture in config.json";
  facts.no_heads = "no config.json in its folder has n_head";
  if (!is_plain_file(path)) return facts;
  const std::string where = cat("'", path.string(), "'");
  const json config =
      metadata_json({{"config", read_file(path, int64_t{16} << 20)}}, "config", where);
  if (!config.is_object()) fail_data(where, " is not a JSON object.");
  read_from(where, [&] {
    take_timm(config, facts);
    take(config, "n_head", facts.heads);
    // Hugging Face's default activation of GPT-2, if the file names none.
    if (config.contains("n_head")) facts.activation = "gelu_new";
    take(config, "activation_function", facts.activation);
    return 0;
  });
  return facts;
}

}  // namespace tost
