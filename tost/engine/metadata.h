// Reads the description of a model in the metadata of its file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/engine/precision.h"

namespace tost {

// The metadata key of the kind of model; files without it hold image classifiers.
inline constexpr char kKindKey[] = "tost.kind";
inline constexpr char kConfigKey[] = "tost.config";

// Whether the metadata of a safetensors file are those of a model file of this program.
inline bool describes_itself(const std::map<std::string, std::string>& metadata) {
  return metadata.count(kConfigKey) != 0;
}

// Parses the JSON text under `key`. Throws a data Error naming `where` if the text is missing, no
// JSON, or nested deeper than 64 levels.
nlohmann::json metadata_json(const std::map<std::string, std::string>& metadata,
                             const std::string& key, const std::string& where);

// Writes the description of a model of `kind` as metadata: "format": "pt", "tost.kind", and each
// key of the description as JSON text under "tost.KEY".
std::map<std::string, std::string> described_metadata(const std::string& kind,
                                                      const nlohmann::json& description);
// Reads a description with the given keys from metadata. Throws as metadata_json().
nlohmann::json stored_description(const std::map<std::string, std::string>& metadata,
                                  const std::vector<std::string>& keys, const std::string& where);

// The kind of a model file by its metadata: "vision", "language" or "sequence". Throws a data Error
// naming `where` if the metadata describe no model of this program.
std::string stored_kind(const std::map<std::string, std::string>& metadata,
                        const std::string& where);

// The configuration in the header of a model file of this program and of this kind; null for
// others.
nlohmann::json config_in_header(const std::filesystem::path& file, const std::string& kind);

inline constexpr char kPrecisionKey[] = "tost.precision";

// The precision that the metadata name; fp32 if they name none. Throws a data Error about `where`
// for an unknown name.
Precision stored_precision(const std::map<std::string, std::string>& metadata,
                           const std::string& where);

// Throws a data Error naming `where` unless `object` is an object with exactly the keys `keys`.
void expect_keys(const nlohmann::json& object, const std::vector<std::string>& keys,
                 const std::string& where);

// Reads an integer. Throws a data Error about `what` for other values, such as 12.5, which
// get<int64_t>() would accept.
int64_t json_integer(const nlohmann::json& value, const std::string& what = "it");

// Throws a usage Error that names the data if it has another number of classes than the model.
void check_class_count(size_t found, size_t wanted, const std::string& data);
// A sentence without "the" and full stop, if the data's classes have other names; else "".
std::string other_class_names(const std::vector<std::string>& found,
                              const std::vector<std::string>& wanted, const std::string& data);
// Throws a usage Error unless the data named `data` have the model's classes in the model's order.
void check_classes(const std::vector<std::string>& found, const std::vector<std::string>& wanted,
                   const std::string& data);

// Runs `read`, and turns a wrong JSON type or an impossible value into a data Error about `where`.
template <class Read>
auto read_from(const std::string& where, Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    fail_data(where, " holds a value of the wrong type (", error.what(), ").");
  } catch (const Error& error) {
    fail_data(where, " cannot be used: ", error.what());
  }
}

}  // namespace tost
