#include "tost/store/foreign_facts.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/io/parse_json.h"
#include "tost/io/torch_value.h"
#include "tost/store/metadata.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

// The value under a key of a JSON object; null where there is none.
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
    // What Hugging Face takes where a GPT-2 names none.
    if (config.contains("n_head")) facts.activation = "gelu_new";
    take(config, "activation_function", facts.activation);
    return 0;
  });
  return facts;
}

}  // namespace tost
