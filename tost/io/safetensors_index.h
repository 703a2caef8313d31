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

// Whether the name of a file is that of an index.
bool is_safetensors_index(const std::filesystem::path& file);

// Throws a data Error naming `where` unless the text is an object with "weight_map" and optionally
// the object "metadata", without repeated keys. The map must not be empty, and every shard must be
// a plain name that ends in .safetensors.
SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& where);

// Makes the text of an index; total_bytes is the size of the data in all shards.
std::string safetensors_index_text(const SafetensorsIndex& index, int64_t total_bytes);

// Reads the index in a file of at most 100 MB.
SafetensorsIndex read_safetensors_index(const std::filesystem::path& file);

// Throws a data Error unless the shard holds exactly the tensors that the index lists for it.
void check_shard(const std::set<std::string>& listed, const std::set<std::string>& held,
                 const std::string& shard, const std::string& index);

// Adds a shard's metadata to those of earlier shards. Throws a data Error if two shards disagree.
void merge_shard_metadata(std::map<std::string, std::string>& all,
                          const std::map<std::string, std::string>& metadata,
                          const std::string& shard);

// Joins all shards of an index, which `read` reads by their paths. A shard has tensors by name in
// `member`, and `metadata`. Throws a data Error if the shards do not match.
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

// Reads the header of a file, without tensors. `file` may also be an index of shards: the result
// then has the entries and metadata of all shards, `begin` and `end` count within a shard, and
// data_offset is 0. Throws the data Errors of parse_safetensors_header, and one for an unreadable
// file or for shards that do not match.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& file);

}  // namespace tost
