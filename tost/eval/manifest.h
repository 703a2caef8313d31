// The list of a checkpoint's files with sizes and checksums. Free of torch.
#pragma once

#include <cstdint>
#include <filesystem>
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

// {"files": {NAME: {"bytes": N, "crc32c": "8 hex digits"}}} of every regular file in the folder.
nlohmann::json make_manifest(const std::filesystem::path& folder);

// Strict: throws a data Error naming `where` unless it is such an object whose names are those of
// files beside it, weights, optimiser and state among them.
Manifest parse_manifest(std::string_view text, const std::string& where);

// Checks every file of a checkpoint folder against its manifest. Throws a data Error naming the
// first file that is missing, of another size, or damaged.
void verify_checkpoint(const std::filesystem::path& folder);

}  // namespace tost
