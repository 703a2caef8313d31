#include "tost/engine/metadata.h"

#include <algorithm>

#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_index.h"

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

std::map<std::string, std::string> described_metadata(const std::string& kind,
                                                      const json& description) {
  std::map<std::string, std::string> metadata{{"format", "pt"}, {kKindKey, kind}};
  for (const auto& [key, value] : description.items()) {
    if (key != "kind") metadata["tost." + key] = json_text(value);
  }
  return metadata;
}

json stored_description(const std::map<std::string, std::string>& metadata,
                        const std::vector<std::string>& keys, const std::string& where) {
  json description;
  for (const auto& key : keys) description[key] = metadata_json(metadata, "tost." + key, where);
  return description;
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

int64_t json_integer(const json& value, const std::string& what) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!fits) fail_data(what, " has ", shown(json_text(value), 40), " where an integer belongs.");
  return value.get<int64_t>();
}

std::string stored_kind(const std::map<std::string, std::string>& metadata,
                        const std::string& where) {
  const auto kind = metadata.find(kKindKey);
  if (kind != metadata.end()) return kind->second;
  metadata_json(metadata, kConfigKey, where);  // throws where this is not a model file at all
  return "vision";
}

Precision stored_precision(const std::map<std::string, std::string>& metadata,
                           const std::string& where) {
  const auto found = metadata.find(kPrecisionKey);
  if (found == metadata.end()) return Precision::kFp32;
  if (const auto precision = precision_named(found->second)) return *precision;
  fail_data(where, " names the precision '", found->second.substr(0, 40), "'; known are ",
            list_of(all_precisions()), ".");
}

void check_class_count(size_t found, size_t wanted, const std::string& data) {
  if (found == wanted) return;
  fail_usage("'", data, "' has ", found, found == 1 ? " class" : " classes", " but the model has ",
             wanted, "; give data of the classes it was trained on.");
}

std::string other_class_names(const std::vector<std::string>& found,
                              const std::vector<std::string>& wanted, const std::string& data) {
  if (found == wanted) return "";
  return cat("classes of '", data, "' have other names than those the model was trained on (",
             found.front(), ", ... against ", wanted.front(), ", ...); they are matched by number");
}

void check_classes(const std::vector<std::string>& found, const std::vector<std::string>& wanted,
                   const std::string& data) {
  check_class_count(found.size(), wanted.size(), data);
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == wanted[i]) continue;
    fail_usage("Class ", i + 1, " of '", data, "' is ", shown(found[i], 40), " but the model's is ",
               shown(wanted[i], 40), "; give data whose labels are the model's.");
  }
}

json config_in_header(const std::filesystem::path& file, const std::string& kind) {
  if (file.extension() != ".safetensors") return {};
  const auto metadata = read_safetensors_header(file).metadata;
  const std::string where = cat("'", file.string(), "'");
  if (!describes_itself(metadata) || stored_kind(metadata, where) != kind) return {};
  return metadata_json(metadata, kConfigKey, where);
}

}  // namespace tost
