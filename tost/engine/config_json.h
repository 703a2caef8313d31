// Reads and writes configuration structs as JSON, by one function that visits all fields.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {

// Assign a value to a field. Throw a data Error naming the key, the expected and the found type.
void assign_field(const char* key, std::string& field, const nlohmann::json& value);
void assign_field(const char* key, int64_t& field, const nlohmann::json& value);
void assign_field(const char* key, double& field, const nlohmann::json& value);
void assign_field(const char* key, bool& field, const nlohmann::json& value);

// Throws a usage Error unless low <= value <= high.
void check_field_range(const char* key, int64_t value, int64_t low, int64_t high);

// Throw usage Errors for a value that is not finite, a value outside [0, 1), and a ratio that gives
// an MLP no hidden unit.
void check_field_finite(const char* key, double value);
void check_field_share(const char* key, double value);
void check_mlp_ratio(double ratio, int64_t dim);

// Sizes far above any model of the papers (width 1280, depth 36), and far below those of a hostile
// file that would overflow or exhaust memory.
inline constexpr int64_t kMaxDim = 16384, kMaxDepth = 1024;
// Throws a usage Error for a model of too many parameters; `sizes` ("width 8, ...") shows why.
void check_parameters(double parameters, const std::string& sizes);

// Throws a usage Error, with the nearest allowed value, unless `value` is one of `allowed`.
void check_field_choice(const char* key, const std::string& value,
                        const std::vector<std::string>& allowed);

// Throws the usage Error of a second half of blocks that there is not.
inline void check_mlp(const std::string& mlp) {
  check_field_choice("mlp", mlp, {"gelu", "ista", "tied"});
}

// Writes JSON; fields(config, visit) must call visit(key, field, optional) for every field.
template <class Config, class Fields>
nlohmann::json config_to_json(const Config& config, const Fields& fields) {
  auto json = nlohmann::json::object();
  fields(config, [&](const char* key, const auto& field, bool) { json[key] = field; });
  return json;
}

// Sets the fields in `json`. Throws a data Error for an unknown key (with the nearest one), a wrong
// type and, unless `partial` is set, a missing field that is not optional.
template <class Config, class Fields>
void config_from_json(const nlohmann::json& json, const Fields& fields, bool partial,
                      Config& config) {
  if (!json.is_object())
    fail_data("Model config must be a JSON object, found ", json.type_name(), ".");
  std::vector<std::string> known;
  fields(config, [&](const char* key, auto& field, bool optional) {
    known.emplace_back(key);
    const auto found = json.find(key);
    if (found != json.end()) {
      assign_field(key, field, *found);
    } else if (!optional && !partial) {
      fail_data("Model config lacks '", key, "'.");
    }
  });
  for (const auto& item : json.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    fail_data("The model config has an unknown key '", item.key(), "'.",
              did_you_mean(item.key(), known));
  }
}

}  // namespace tost
