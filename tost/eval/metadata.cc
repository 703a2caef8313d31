#include "tost/eval/metadata.h"

#include <algorithm>

#include "tost/base/text.h"

namespace tost {

using nlohmann::json;

namespace {

constexpr int kMostNesting = 64;  // copying a value recurses as deep as it is nested

}  // namespace

json metadata_json(const std::map<std::string, std::string>& metadata, const std::string& key,
                   const std::string& where) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    fail_data(where, " has no '", key,
              "' in its metadata, so it is not a model file of this program.");
  }
  const auto check_depth = [&](int depth, json::parse_event_t event, json&) {
    using Event = json::parse_event_t;
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (!opens || depth < kMostNesting) return true;
    fail_data(where, " has '", key, "' nested deeper than ", kMostNesting,
              " levels in its metadata; it is damaged or no model file of this program.");
  };
  json value = json::parse(found->second, check_depth, /*allow_exceptions=*/false);
  if (value.is_discarded()) fail_data(where, " has '", key, "' that is not JSON in its metadata.");
  return value;
}

void expect_keys(const json& object, const std::vector<std::string>& keys,
                 const std::string& where) {
  if (!object.is_object())
    fail_data(where, " should be a JSON object but is of the type ", object.type_name(), ".");
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      fail_data(where, " has the unknown key '", key, "'.", did_you_mean(key, keys));
    }
  }
  for (const std::string& key : keys) {
    if (!object.contains(key)) fail_data(where, " lacks the key '", key, "'.");
  }
}

}  // namespace tost
