#include "tost/io/safetensors_probe.h"

#include <algorithm>
#include <set>
#include <string>

#include "tost/base/file.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

SafetensorsHeader read_one(const std::filesystem::path& file) {
  InputFile in(file);
  std::string bytes(8, '\0');
  bytes.resize(in.read(bytes.data(), 8));
  uint64_t length = 0;
  for (size_t i = bytes.size(); i-- > 0;) length = length << 8 | uint8_t(bytes[i]);
  // Beyond the cap nothing is read: the parser refuses the length itself.
  if (bytes.size() == 8 && length <= uint64_t(kMaxSafetensorsHeader)) {
    bytes.resize(8 + std::min(uint64_t(std::max<int64_t>(in.size() - 8, 0)), length));
    bytes.resize(8 + in.read(bytes.data() + 8, bytes.size() - 8));
  }
  return parse_safetensors_header(bytes, in.size(), file.string());
}

SafetensorsHeader read_shards(const std::filesystem::path& index) {
  SafetensorsHeader all;
  for (const auto& [name, listed] : read_safetensors_index(index).shards) {
    const auto path = index.parent_path() / name;
    SafetensorsHeader shard = read_one(path);
    std::set<std::string> held;
    for (const auto& [tensor, entry] : shard.entries) held.insert(tensor);
    check_shard(listed, held, path.string(), index.string());
    all.entries.merge(shard.entries);
    merge_shard_metadata(all.metadata, shard.metadata, path.string());
  }
  return all;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const std::filesystem::path& file) {
  return is_safetensors_index(file) ? read_shards(file) : read_one(file);
}

}  // namespace tost
