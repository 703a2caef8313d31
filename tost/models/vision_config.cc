#include "tost/models/vision_config.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/models/token_mixer.h"

namespace tost {
namespace {

// Far above any model of the paper (width 768, depth 24), far below what would overflow or exhaust
// memory on a hostile file's say-so.
constexpr int64_t kMaxDim = 16384, kMaxDepth = 1024, kMaxSide = 16384, kMaxClasses = 1'000'000;
constexpr double kMaxParameters = 2e10;

void check_range(const char* key, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    fail_usage("Model setting '", key, "' is ", value, "; it must be from ", low, " to ", high,
               ".");
  }
}

void check_size(const VisionConfig& c) {
  const double width = static_cast<double>(c.dim);
  const double parameters =
      static_cast<double>(c.depth + c.class_blocks) * width * width * (4 + 2 * c.mlp_ratio) +
      static_cast<double>(c.classes) * width;
  if (parameters > kMaxParameters) {
    fail_usage("A model of width ", c.dim, ", depth ", c.depth, " and ", c.classes,
               " classes would have about ", parameters, " parameters; the limit is ",
               kMaxParameters, ".");
  }
}

void check_transformer(const VisionConfig& c) {
  if (c.patch != 2 && c.patch != 4 && c.patch != 8 && c.patch != 16) {
    fail_usage("Model setting 'patch' is ", c.patch, "; it must be 2, 4, 8 or 16.");
  }
  if (c.image_size % c.patch != 0) {
    fail_usage("Image side ", c.image_size, " is not divisible by the patch side ", c.patch, "; ",
               c.image_size / c.patch * c.patch + c.patch, " is the next side that is.");
  }
  check_range("stem_depth", c.stem_depth, 1, 8);
  check_range("dim", c.dim, 1, kMaxDim);
  check_range("depth", c.depth, 1, kMaxDepth);
  check_range("class_blocks", c.class_blocks, 1, kMaxDepth);
  check_range("heads", c.heads, 1, c.dim);
  check_mixer(c.mixer, {.dim = c.dim, .heads = c.heads, .qkv_bias = c.qkv_bias});
  if (c.dim % (c.patch / 2) != 0) {
    fail_usage("Width ", c.dim, " cannot be halved along the patch-", c.patch,
               " stem; it must be divisible by ", c.patch / 2);
  }
  if (!(c.mlp_ratio > 0 && c.mlp_ratio <= 64 && c.mlp_ratio * static_cast<double>(c.dim) >= 1)) {
    fail_usage("Model setting 'mlp_ratio' is ", c.mlp_ratio,
               "; it must be above 0, at most 64, and leave at least one hidden unit.");
  }
  if (!std::isfinite(c.layer_scale)) fail_usage("Model setting 'layer_scale' must be finite.");
  if (!(c.drop_path >= 0 && c.drop_path < 1)) {
    fail_usage("Model setting 'drop_path' is ", c.drop_path,
               "; it must be at least 0 and below 1.");
  }
  check_size(c);
}

// Visits every field with its key and whether a JSON form may leave it out.
template <class Config, class Visit>
void visit_fields(Config& c, Visit&& visit) {
  visit("name", c.name, true);
  visit("architecture", c.architecture, false);
  visit("mixer", c.mixer, false);
  visit("in_channels", c.in_channels, false);
  visit("image_size", c.image_size, false);
  visit("patch", c.patch, false);
  visit("stem_depth", c.stem_depth, true);
  visit("dim", c.dim, false);
  visit("depth", c.depth, false);
  visit("heads", c.heads, false);
  visit("classes", c.classes, false);
  visit("class_blocks", c.class_blocks, true);
  visit("mlp_ratio", c.mlp_ratio, true);
  visit("layer_scale", c.layer_scale, true);
  visit("drop_path", c.drop_path, true);
  visit("qkv_bias", c.qkv_bias, true);
  visit("tokens_norm", c.tokens_norm, true);
}

[[noreturn]] void fail_type(const char* key, const char* expected, const nlohmann::json& found) {
  fail_data("Model config: '", key, "' must be ", expected, ", found ", found.type_name(), ".");
}

void assign(const char* key, std::string& field, const nlohmann::json& value) {
  if (!value.is_string()) fail_type(key, "a string", value);
  field = value.get<std::string>();
}

void assign(const char* key, int64_t& field, const nlohmann::json& value) {
  if (!value.is_number_integer()) fail_type(key, "an integer", value);
  // Unsigned values beyond int64 would turn negative in get<int64_t>.
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) {
    fail_data("Model config: '", key, "' is ", value.get<uint64_t>(), ", beyond any size.");
  }
  field = value.get<int64_t>();
}

void assign(const char* key, double& field, const nlohmann::json& value) {
  if (!value.is_number()) fail_type(key, "a number", value);
  field = value.get<double>();
}

void assign(const char* key, bool& field, const nlohmann::json& value) {
  if (!value.is_boolean()) fail_type(key, "true or false", value);
  field = value.get<bool>();
}

}  // namespace

void validate(const VisionConfig& c) {
  if (c.in_channels != 1 && c.in_channels != 3) {
    fail_usage("Model setting 'in_channels' is ", c.in_channels, "; images have 1 or 3 channels.");
  }
  check_range("image_size", c.image_size, 1, kMaxSide);
  check_range("classes", c.classes, 1, kMaxClasses);
  if (c.architecture == "transformer") {
    check_transformer(c);
  } else if (c.architecture != "linear") {
    fail_usage("There is no architecture '", c.architecture, "'; it is transformer or linear.");
  }
}

nlohmann::json to_json(const VisionConfig& config) {
  auto json = nlohmann::json::object();
  visit_fields(config, [&](const char* key, const auto& field, bool) { json[key] = field; });
  return json;
}

VisionConfig vision_config_from_json(const nlohmann::json& json) {
  if (!json.is_object())
    fail_data("Model config must be a JSON object, found ", json.type_name(), ".");
  VisionConfig config;
  std::vector<std::string> known;
  visit_fields(config, [&](const char* key, auto& field, bool optional) {
    known.emplace_back(key);
    const auto found = json.find(key);
    if (found != json.end()) {
      assign(key, field, *found);
    } else if (!optional) {
      fail_data("Model config lacks '", key, "'.");
    }
  });
  for (const auto& item : json.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    fail_data("The model config has an unknown key '", item.key(), "'.",
              did_you_mean(item.key(), known));
  }
  return config;
}

}  // namespace tost
