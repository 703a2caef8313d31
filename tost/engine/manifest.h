// The list of a checkpoint's files with sizes and checksums. Free of torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tost {

struct ManifestEntry {
  int64_t bytes = 0;
  std::string crc32c;  // 8 hex digits

  bool operator==(const ManifestEntry&) const = default;
};
using Manifest = std::map<std::string, ManifestEntry>;  // by the file's name

// Reads the file.
ManifestEntry manifest_entry_of(const std::filesystem::path& file);

// {"bytes": N, "crc32c": "8 hex digits"}
nlohmann::json to_json(const ManifestEntry& entry);

// {"files": {NAME: {"bytes": N, "crc32c": "8 hex digits"}}} of every regular file in the folder.
// Does not read files in `known`, but throws a data Error if one is missing or has another size.
nlohmann::json make_manifest(const std::filesystem::path& folder, const Manifest& known = {});

// Parses such an object. Throws a data Error naming `where` for other JSON, for names with folders,
// and if weights, optimiser or state are missing.
Manifest parse_manifest(std::string_view text, const std::string& where);

// Parses {"bytes": N, "crc32c": "8 hex digits"}, the entry of the file `name`. Throws a data Error
// naming the list `where` for other JSON.
ManifestEntry manifest_entry(const nlohmann::json& entry, const std::string& name,
                             const std::string& where);

// Throws a data Error naming the file unless it matches `expected`; `remedy` ends the message.
void verify_entry(const std::filesystem::path& path, const ManifestEntry& expected,
                  const char* remedy);

// Checks every file of a checkpoint folder against its manifest. Throws a data Error naming the
// first file that is missing, of another size, or damaged.
void verify_checkpoint(const std::filesystem::path& folder);

// Returns advice for a damaged checkpoint: the name of an intact checkpoint of the run, if any.
std::string advice_on_damage(const std::filesystem::path& folder);

// Checks one file against the manifest in its folder. A file without a manifest, or that the
// manifest does not list, passes.
void verify_file(const std::filesystem::path& file);

// The checkpoint folder of the first pointer that exists (see follow_pointer()), else the newest
// one that passes verify_checkpoint(). Empty if there are no checkpoints; throws a data Error if
// all are damaged.
std::filesystem::path find_checkpoint(const std::filesystem::path& checkpoints,
                                      std::initializer_list<const char*> pointers);

}  // namespace tost
