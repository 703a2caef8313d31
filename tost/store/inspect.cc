#include "tost/store/inspect.h"

#include <algorithm>

#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_index.h"
#include "tost/io/safetensors_probe.h"
#include "tost/store/manifest.h"
#include "tost/store/recognise.h"
#include "tost/store/run_layout.h"
#include "tost/store/weights_file.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The same with every text made safe to show; the caller has limited the nesting.
Json escaped_json(const Json& value) {
  if (value.is_string()) return escaped(value.get<std::string>());
  if (!value.is_structured()) return value;
  Json safe = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, item] : value.items()) {
    if (value.is_array()) {
      safe.push_back(escaped_json(item));
    } else {
      safe[escaped(key)] = escaped_json(item);
    }
  }
  return safe;
}

std::vector<fs::path> weight_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const FolderEntry& entry : folder_entries(folder)) {
    for (const char* extension : {".safetensors", ".pt", ".pth", ".bin", ".ckpt"}) {
      if (entry.path.extension() == extension && !entry.folder) files.push_back(entry.path);
    }
  }
  return files;
}

// Those that are there; inspect_shards() names the others.
std::vector<fs::path> shards_of(const fs::path& index) {
  std::vector<fs::path> files;
  for (const auto& [name, tensors] : read_safetensors_index(index).shards) {
    if (path_exists(index.parent_path() / name)) files.push_back(index.parent_path() / name);
  }
  return files;
}

Json inspect_verified(const fs::path& file, const InspectOptions& options) {
  Json report = inspect_weight_file(file, options);
  try {
    verify_file(file);
  } catch (const Error& error) {
    report["error"] = error.what();
  }
  return report;
}

// The settings of the run that `path` or the checkpoint folder belongs to.
void add_arguments(Json& report, const fs::path& path, const fs::path& checkpoint) {
  for (const fs::path& run : {path, checkpoint.parent_path().parent_path()}) {
    if (!path_exists(run / kConfigFile)) continue;
    const std::string text = read_file(run / kConfigFile, 1 << 20);
    const Json config = parse_ordered_json(text, cat("'", (run / kConfigFile).string(), "'"));
    if (config.is_object()) report["arguments"] = escaped_json(config);
    return;
  }
}

Json inspect_folder(const fs::path& path, const InspectOptions& options) {
  const bool is_index = is_safetensors_index(path);
  fs::path folder = is_index ? path.parent_path() : path;
  if (!is_index && weight_files(path).empty() && !path_exists(path / kSafetensorsIndexFile)) {
    folder = find_model_file(path).parent_path();
  }
  Json report = {{"folder", escaped(path.string(), 4096)},
                 {"checkpoint", escaped(folder.string(), 4096)},
                 {"format", "folder"}};
  add_arguments(report, path, folder);
  const fs::path index = is_index ? path : folder / kSafetensorsIndexFile;
  std::vector<fs::path> shards;
  if (path_exists(index)) {
    shards = shards_of(index);
    report["whole"] = inspect_shards(index);
  }
  Json files = Json::array();
  for (const fs::path& file : is_index ? shards : weight_files(folder)) {
    try {
      files.push_back(inspect_verified(file, options));
    } catch (const Error& error) {
      files.push_back(inspect_refusal(file, error));
    }
    // A shard's own part of a model is none to show.
    if (std::count(shards.begin(), shards.end(), file) > 0) files.back().erase("models");
  }
  report["files"] = std::move(files);
  return report;
}

struct Whole {
  int64_t bytes = 0, elements = 0;
  NamedShapes shapes;
  std::map<std::string, std::string> metadata;

  // Throws a data Error, and then no tensor is added.
  void add(const fs::path& shard, const std::set<std::string>& listed, const std::string& index) {
    if (!path_exists(shard)) {
      fail_data("'", shard.string(), "' is missing; '", index, "' names it for ", listed.size(),
                listed.size() == 1 ? " tensor." : " tensors.");
    }
    const SafetensorsHeader header = read_safetensors_header(shard);
    std::set<std::string> held;
    for (const auto& [name, entry] : header.entries) held.insert(name);
    check_shard(listed, held, shard.string(), index);
    merge_shard_metadata(metadata, header.metadata, shard.string());
    for (const auto& [name, entry] : header.entries) {
      shapes[name] = entry.shape;
      bytes += entry.end - entry.begin;
      elements += (entry.end - entry.begin) / safetensors_dtype_bytes(entry.dtype);
    }
  }
};

}  // namespace

Json inspect_shards(const fs::path& index) {
  const auto shards = read_safetensors_index(index).shards;
  Whole whole;
  Json errors = Json::array();
  for (const auto& [name, listed] : shards) {
    try {
      whole.add(index.parent_path() / name, listed, index.string());
    } catch (const Error& error) {
      errors.push_back(error.what());
    }
  }
  Json report = {{"index", escaped(index.string(), 4096)},
                 {"format", "safetensors shards"},
                 {"shards", shards.size()},
                 {"bytes", whole.bytes},
                 {"tensors", whole.shapes.size()},
                 {"elements", whole.elements},
                 {"models", recognise_models(whole.shapes)}};
  for (const auto& [key, value] : whole.metadata) {
    report["metadata"][escaped(key)] = escaped(value, 100'000);
  }
  report["errors"] = std::move(errors);
  return report;
}

Json inspect(const fs::path& path, const InspectOptions& options) {
  if (!path_exists(path)) (void)find_model_file(path);  // throws with the names
  return is_folder(path) || is_safetensors_index(path) ? inspect_folder(path, options)
                                                       : inspect_verified(path, options);
}

Json inspect_refusal(const fs::path& path, const Error& error) {
  return {{"file", escaped(path.string(), 4096)},
          {"bytes", is_plain_file(path) ? file_bytes(path) : 0},
          {"suspicious", nullptr},
          {"error", error.what()},
          {"format", "refused"}};
}

}  // namespace tost
