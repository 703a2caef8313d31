// Streams of random numbers that tell the splits of a generated set apart.
#pragma once

#include <cstdint>
#include <string>

namespace tost {

inline uint64_t split_stream(const std::string& split) {
  return split == "train" ? 1 : split == "validation" ? 2 : 3;
}

}  // namespace tost
