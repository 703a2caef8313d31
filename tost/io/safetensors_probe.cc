#include "tost/io/safetensors_probe.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "tost/base/error.h"
#include "tost/io/safetensors_index.h"

namespace tost {
namespace {

SafetensorsHeader read_one(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error) fail_data("'", file.string(), "' cannot be read: ", error.message(), ".");
  std::ifstream in(file, std::ios::binary);
  uint8_t length_bytes[8] = {};
  in.read(reinterpret_cast<char*>(length_bytes), sizeof length_bytes);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | length_bytes[i];
  // Beyond the cap nothing is read: the parser refuses the length itself.
  const uint64_t wanted = 8 + (length <= uint64_t(kMaxSafetensorsHeader) ? length : 0);
  std::string bytes(std::min<uint64_t>(size, wanted), '\0');
  in.clear();
  in.seekg(0);
  in.read(bytes.data(), std::streamsize(bytes.size()));
  if (!in) fail_data("'", file.string(), "' cannot be read.");
  return parse_safetensors_header(bytes, int64_t(size), file.string());
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
