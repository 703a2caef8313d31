// The list of a checkpoint's files with sizes and checksums.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace tost {

// {"files": {NAME: {"bytes": N, "crc32c": "8 hex digits"}}} of every regular file in the folder.
nlohmann::json make_manifest(const std::filesystem::path& folder);

}  // namespace tost
