#include "tost/io/shards_inspect.h"

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/io/safe_text.h"
#include "tost/io/safetensors_index.h"
#include "tost/io/safetensors_probe.h"
#include "tost/io/torch_model.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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

}  // namespace tost
