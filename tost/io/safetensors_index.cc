#include "tost/io/safetensors_index.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr int64_t kMaxIndexBytes = 100'000'000;  // as a header may have
constexpr std::string_view kEnding = ".safetensors";

// Whether a name is in the folder of the index: no separator, leading dot or control character.
bool is_shard_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '+';
  };
  return name.size() > kEnding.size() && name.size() <= 255 && ends_with(name, kEnding) &&
         name.front() != '.' && std::all_of(name.begin(), name.end(), plain);
}

// The first name in `a` that is not in `b`; null if there is none.
const std::string* missing_from(const std::set<std::string>& b, const std::set<std::string>& a) {
  const auto found =
      std::find_if(a.begin(), a.end(), [&](const std::string& name) { return b.count(name) == 0; });
  return found == a.end() ? nullptr : &*found;
}

}  // namespace

bool is_safetensors_index(const std::filesystem::path& file) {
  return ends_with(file.filename().string(), ".safetensors.index.json");
}

SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& where) {
  const nlohmann::json index = parse_json(text, where, {.nesting = 16, .unique_keys = true});
  const auto fail = [&](const std::string& what) {
    fail_data(where, " is not an index of safetensors files: ", what, ".");
  };
  if (!index.is_object()) fail("it is not a JSON object");
  for (const auto& [key, value] : index.items()) {
    if (key == "metadata" && !value.is_object()) fail("its 'metadata' is not an object");
    if (key != "metadata" && key != "weight_map") fail("it has the unknown key " + shown(key));
  }
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    fail("it lacks 'weight_map', an object of tensors and their files");
  }
  SafetensorsIndex result;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) fail("the file of tensor " + shown(tensor) + " is not a string");
    const auto& name = shard.get_ref<const std::string&>();
    if (!is_shard_name(name)) {
      fail("tensor " + shown(tensor) + " is said to lie in " + shown(name) +
           ", which is not the plain name of a .safetensors file in its folder");
    }
    result.shards[name].insert(tensor);
  }
  return result;
}

std::string safetensors_index_text(const SafetensorsIndex& index, int64_t total_bytes) {
  nlohmann::json object = {{"metadata", {{"total_size", total_bytes}}},
                           {"weight_map", nlohmann::json::object()}};
  for (const auto& [shard, tensors] : index.shards) {
    for (const std::string& tensor : tensors) object["weight_map"][tensor] = shard;
  }
  return json_text(object, 2) + "\n";
}

SafetensorsIndex read_safetensors_index(const std::filesystem::path& file) {
  return parse_safetensors_index(read_file(file, kMaxIndexBytes), cat("'", file.string(), "'"));
}

void check_shard(const std::set<std::string>& listed, const std::set<std::string>& held,
                 const std::string& shard, const std::string& index) {
  if (const std::string* name = missing_from(held, listed)) {
    fail_data("'", index, "' says that tensor ", shown(*name), " is in '", shard,
              "', which does not hold it; the files do not belong together.");
  }
  if (const std::string* name = missing_from(listed, held)) {
    fail_data("'", shard, "' holds the tensor ", shown(*name), ", which '", index,
              "' does not name there; the files do not belong together.");
  }
}

void merge_shard_metadata(std::map<std::string, std::string>& all,
                          const std::map<std::string, std::string>& metadata,
                          const std::string& shard) {
  for (const auto& [key, value] : metadata) {
    if (all.emplace(key, value).first->second == value) continue;
    fail_data("'", shard, "' has other metadata under ", shown(key),
              " than the shards before it; the files do not belong together.");
  }
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& file) {
  if (is_safetensors_index(file)) {
    return read_shards(file, &SafetensorsHeader::entries, read_safetensors_header);
  }
  InputFile in(file);
  std::string bytes(8, '\0');
  bytes.resize(in.read(bytes.data(), 8));
  uint64_t length = 0;
  for (size_t i = bytes.size(); i-- > 0;) length = length << 8 | uint8_t(bytes[i]);
  // Reads nothing beyond the limit, because the parser then refuses the length.
  if (bytes.size() == 8 && length <= uint64_t(kMaxSafetensorsHeader)) {
    bytes.resize(8 + std::min(uint64_t(std::max<int64_t>(in.size() - 8, 0)), length));
    bytes.resize(8 + in.read(bytes.data() + 8, bytes.size() - 8));
  }
  return parse_safetensors_header(bytes, in.size(), file.string());
}

}  // namespace tost
