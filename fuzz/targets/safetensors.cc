// Headers of safetensors files, and indices of shards.
#include "fuzz/targets.h"
#include "tost/io/safetensors_header.h"
#include "tost/io/safetensors_index.h"

namespace tost::fuzz {

void try_safetensors(std::string_view input) {
  if (take_choice(input) % 4 == 1) {
    return or_refuse([&] {
      for (const auto& [shard, names] : parse_safetensors_index(input, "fuzz").shards) {
        require(!names.empty(), "a tensor in every shard");
        require(shard.find('/') == shard.npos && shard != "..", "shards next to the index");
      }
    });
  }
  or_refuse([&] {
    const auto size = static_cast<int64_t>(input.size());
    const SafetensorsHeader header = parse_safetensors_header(input, size, "fuzz");
    int64_t held = 0;
    for (const auto& [name, entry] : header.entries) {
      require(entry.begin >= 0 && entry.end >= entry.begin, "a place");
      require(header.data_offset + entry.end <= size, "inside the file");
      held += entry.end - entry.begin;
    }
    require(header.data_offset + held == size, "no hole and no rest");
  });
}

}  // namespace tost::fuzz
