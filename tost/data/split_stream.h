// Streams of random numbers that distinguish the splits of a generated set.
#pragma once

#include <cstdint>
#include <string>

namespace tost {

inline uint64_t split_stream(const std::string& split) {
  return split == "train" ? 1 : split == "validation" ? 2 : 3;
}

}  // namespace tost
