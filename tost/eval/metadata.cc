#include "tost/eval/metadata.h"

#include <algorithm>

#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"

namespace tost {

using nlohmann::json;

json metadata_json(const std::map<std::string, std::string>& metadata, const std::string& key,
                   const std::string& where) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    fail_data(where, " has no '", key,
              "' in its metadata, so it is not a model file of this program.");
  }
  return parse_json(found->second, cat("'", key, "' in the metadata of ", where));
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

int64_t whole_number(const json& value, const std::string& what) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!fits)
    fail_data(what, " has ", shown(json_text(value), 40), " where a whole number belongs.");
  return value.get<int64_t>();
}

}  // namespace tost
