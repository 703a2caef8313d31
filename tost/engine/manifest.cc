#include "tost/engine/manifest.h"

#include <cstdio>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/engine/run_layout.h"
#include "tost/io/crc.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxManifestBytes = 1 << 20;

std::string file_crc(const fs::path& path) {
  InputFile file(path);
  std::string chunk(size_t{1} << 20, '\0');
  uint32_t crc = 0;
  while (const size_t got = file.read(chunk.data(), chunk.size())) {
    crc = crc32c(std::string_view(chunk.data(), got), crc);
  }
  char text[16];
  std::snprintf(text, sizeof text, "%08x", crc);
  return text;
}

bool is_crc(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().size() == 8 &&
         value.get_ref<const std::string&>().find_first_not_of("0123456789abcdef") ==
             std::string::npos;
}

bool is_size(const json& value) {
  return value.is_number_integer() && value >= 0 && value <= std::numeric_limits<int64_t>::max();
}

// Whether the name is that of a file directly in the folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

Manifest read_manifest(const fs::path& file) {
  return parse_manifest(read_file(file, kMaxManifestBytes), cat("'", file.string(), "'"));
}

// The difference of a file from its entry, without a full stop; empty if there is none.
std::string fault_of(const fs::path& path, const ManifestEntry& expected) {
  if (!is_plain_file(path)) return cat("'", path.string(), "' is missing");
  const ManifestEntry found = manifest_entry_of(path);
  if (found == expected) return "";
  return cat("'", path.string(), "' is damaged: its manifest says ", json_text(to_json(expected)),
             " but the file has ", json_text(to_json(found)));
}

}  // namespace

ManifestEntry manifest_entry_of(const fs::path& file) {
  return {file_bytes(file), file_crc(file)};
}

json to_json(const ManifestEntry& entry) {
  return {{"bytes", entry.bytes}, {"crc32c", entry.crc32c}};
}

json make_manifest(const fs::path& folder, const Manifest& known) {
  json files = json::object();
  for (const auto& [name, entry] : known) {
    const int64_t found = is_plain_file(folder / name) ? file_bytes(folder / name) : -1;
    if (found != entry.bytes) {
      fail_data("'", (folder / name).string(), "', which another process wrote, ",
                found < 0 ? "is not there" : cat("has ", found, " bytes in place of ", entry.bytes),
                "; the run folder must be on a file system that all processes share.");
    }
    files[name] = to_json(entry);
  }
  for (const FolderEntry& entry : folder_entries(folder)) {
    const std::string name = entry.path.filename().string();
    if (!entry.file || name == kManifestFile || files.contains(name)) continue;
    files[name] = to_json(manifest_entry_of(entry.path));
  }
  return {{"files", files}};
}

ManifestEntry manifest_entry(const json& entry, const std::string& name, const std::string& where) {
  if (!entry.is_object() || entry.size() != 2 || !entry.contains("bytes") ||
      !entry.contains("crc32c") || !is_size(entry["bytes"]) || !is_crc(entry["crc32c"])) {
    fail_data(where, " does not give bytes and crc32c of ", shown(name), ".");
  }
  return {entry["bytes"].get<int64_t>(), entry["crc32c"].get<std::string>()};
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  const json object = parse_json(text, where, {.unique_keys = true});
  if (!object.is_object() || !object.contains("files") || !object["files"].is_object()) {
    fail_data(where, " is not a checkpoint manifest.");
  }
  Manifest manifest;
  for (const auto& [name, entry] : object["files"].items()) {
    if (!is_plain_name(name))
      fail_data(where, " lists ", shown(name), ", which is not a file's name.");
    manifest[name] = manifest_entry(entry, name, where);
  }
  const char* optimizer =
      manifest.contains(kOptimizerIndexFile) ? kOptimizerIndexFile : kOptimizerFile;
  for (const char* needed : {kModelFile, optimizer, kStateFile}) {
    if (!manifest.contains(needed)) fail_data(where, " does not list ", needed, ".");
  }
  return manifest;
}

void verify_entry(const fs::path& path, const ManifestEntry& expected, const char* remedy) {
  const std::string fault = fault_of(path, expected);
  if (!fault.empty()) fail_data(fault, "; ", remedy, ".");
}

void verify_checkpoint(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder / kManifestFile);
  for (const auto& [name, expected] : manifest) {
    const std::string fault = fault_of(folder / name, expected);
    if (!fault.empty()) fail_data(fault, ".");
  }
  const fs::path index = folder / kOptimizerIndexFile;
  if (!manifest.contains(kOptimizerIndexFile)) return;
  for (const auto& [shard, tensors] : read_safetensors_index(index).shards) {
    if (manifest.contains(shard)) continue;
    fail_data("'", index.string(), "' names the shard ", shown(shard), ", which ", kManifestFile,
              " does not list.");
  }
}

std::string advice_on_damage(const fs::path& folder) {
  if (checkpoint_step(folder.filename().string()) < 0) return "use another copy of it";
  for (const fs::path& other : checkpoint_folders(folder.parent_path())) {
    if (other.filename() == folder.filename()) continue;
    try {
      verify_checkpoint(other);
      return cat("use '", other.string(), "', which is intact");
    } catch (const Error&) {
    }
  }
  return "its run has no other checkpoint that is intact: restore one from a copy, or train again";
}

void verify_file(const fs::path& file) {
  const fs::path list = file.parent_path() / kManifestFile;
  if (!path_exists(list)) return;
  const Manifest manifest = read_manifest(list);
  const auto entry = manifest.find(file.filename().string());
  if (entry == manifest.end()) return;
  const std::string fault = fault_of(file, entry->second);
  if (!fault.empty()) fail_data(fault, "; ", advice_on_damage(file.parent_path()), ".");
}

fs::path find_checkpoint(const fs::path& checkpoints, std::initializer_list<const char*> pointers) {
  for (const char* pointer : pointers) {
    const fs::path folder = follow_pointer(checkpoints, pointer);
    if (!folder.empty()) return folder;
  }
  if (!is_folder(checkpoints)) return {};
  std::vector<std::string> messages;
  return read_newest(checkpoint_folders(checkpoints), messages,
                     [](const fs::path& folder) {
                       verify_checkpoint(folder);
                       return folder;
                     })
      .value_or(fs::path());
}

}  // namespace tost
