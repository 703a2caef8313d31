// What a safetensors file says of itself, without reading a tensor. Free of torch.
#pragma once

#include <filesystem>

#include "tost/io/safetensors_header.h"

namespace tost {

// Reads the header alone. Throws the data Errors of parse_safetensors_header, and one for a file
// that cannot be read.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& file);

}  // namespace tost
