// Weights in several safetensors files, as Hugging Face splits large models: an index, usually
// model.safetensors.index.json, that names the shard of every tensor:
//   {"metadata": {"total_size": 16}, "weight_map": {"a": "model-00001-of-00002.safetensors", …}}
// Free of torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tost/io/safetensors_header.h"

namespace tost {

inline constexpr char kSafetensorsIndexFile[] = "model.safetensors.index.json";

struct SafetensorsIndex {
  std::map<std::string, std::set<std::string>> shards;  // file name: the tensors in it
};

// Whether a file of this name is such an index.
bool is_safetensors_index(const std::filesystem::path& file);

// Strict: throws a data Error naming `where` unless it is an object of "weight_map" and perhaps
// "metadata" (an object, whose content is not used), no key is there twice, the map is not empty,
// and every shard is a plain name ending in .safetensors, so that it is in the folder of the index.
SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& where);

// The text of an index; total_bytes: of the data in all shards.
std::string safetensors_index_text(const SafetensorsIndex& index, int64_t total_bytes);

// The index in a file of at most 100 MB.
SafetensorsIndex read_safetensors_index(const std::filesystem::path& file);

// Throws a data Error unless the shard holds exactly the tensors that the index lists for it.
void check_shard(const std::set<std::string>& listed, const std::set<std::string>& held,
                 const std::string& shard, const std::string& index);

// Adds a shard's metadata to that of the shards before it. Throws a data Error where they differ.
void merge_shard_metadata(std::map<std::string, std::string>& all,
                          const std::map<std::string, std::string>& metadata,
                          const std::string& shard);

// All shards of an index together: `read` gives those of one path, with the tensors by name in
// `member` and with `metadata`. Throws a data Error if they do not belong together.
template <class File, class Tensors, class Read>
File read_shards(const std::filesystem::path& index, Tensors File::*member, const Read& read) {
  File all;
  for (const auto& [name, listed] : read_safetensors_index(index).shards) {
    const std::filesystem::path path = index.parent_path() / name;
    File shard = read(path);
    std::set<std::string> held;
    for (const auto& [tensor, value] : shard.*member) held.insert(tensor);
    check_shard(listed, held, path.string(), index.string());
    (all.*member).merge(shard.*member);
    merge_shard_metadata(all.metadata, shard.metadata, path.string());
  }
  return all;
}

// The header of a file, without reading a tensor. `file` may also be an index of shards: then the
// entries of all shards and their metadata together, `begin` and `end` counting in each shard and
// data_offset being 0. Throws the data Errors of parse_safetensors_header, and one for a file that
// cannot be read, or shards that do not belong together, as load_safetensors does.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& file);

}  // namespace tost
