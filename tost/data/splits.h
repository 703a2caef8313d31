// The names of the parts of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tost {

// Streams of random numbers that distinguish the splits of a generated set.

inline uint64_t split_stream(const std::string& split) {
  return split == "train" ? 1 : split == "validation" ? 2 : 3;
}

inline const std::vector<std::string> kSplits = {"train", "validation", "test"};

}  // namespace tost
