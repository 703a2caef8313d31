#include "tost/train/manifest.h"

#include <cstdio>
#include <fstream>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/eval/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/train/checkpoint_store.h"
#include "tost/train/crc32c.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxManifestBytes = 1 << 20;

std::string file_crc(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string chunk(size_t{1} << 20, '\0');
  uint32_t crc = 0;
  while (file) {
    file.read(chunk.data(), std::streamsize(chunk.size()));
    crc = crc32c(std::string_view(chunk.data(), size_t(file.gcount())), crc);
  }
  if (!file.eof()) fail_data("Cannot read '", path.string(), "'.");
  char text[16];
  std::snprintf(text, sizeof text, "%08x", crc);
  return text;
}

json read_manifest(const fs::path& path) {
  const json manifest =
      parse_json(read_file(path, kMaxManifestBytes), cat("'", path.string(), "'"));
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object()) {
    fail_data("'", path.string(), "' is not a checkpoint manifest.");
  }
  return manifest;
}

}  // namespace

json make_manifest(const fs::path& folder) {
  json files = json::object();
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().filename() == kManifestFile) continue;
    files[entry.path().filename().string()] = {{"bytes", entry.file_size()},
                                               {"crc32c", file_crc(entry.path())}};
  }
  return {{"files", files}};
}

void verify_checkpoint(const fs::path& folder) {
  const json manifest = read_manifest(folder / kManifestFile);
  for (const char* needed : {kModelFile, kOptimizerFile, kStateFile}) {
    if (!manifest["files"].contains(needed)) {
      fail_data("The manifest of '", folder.string(), "' does not list ", needed, ".");
    }
  }
  for (const auto& [name, expected] : manifest["files"].items()) {
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path)) fail_data("'", path.string(), "' is missing.");
    const json found{{"bytes", fs::file_size(path)}, {"crc32c", file_crc(path)}};
    if (found != expected) {
      fail_data("'", path.string(), "' is damaged: its manifest says ", expected.dump(),
                " but the file has ", found.dump(), ".");
    }
  }
}

}  // namespace tost
