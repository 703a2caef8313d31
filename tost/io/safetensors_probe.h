// What a safetensors file says of itself, without reading a tensor. Free of torch.
#pragma once

#include <filesystem>

#include "tost/io/safetensors_header.h"

namespace tost {

// Reads the header alone. `file` may also be an index of shards (safetensors_index.h): then the
// entries of all shards and their metadata together, `begin` and `end` counting in each shard and
// data_offset being 0. Throws the data Errors of parse_safetensors_header, and one for a file that
// cannot be read, or shards that do not belong together, as load_safetensors does.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& file);

}  // namespace tost
