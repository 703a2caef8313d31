// Sizes rounded up to whole pieces. For small counts: nothing is checked (checked.h does that).
#pragma once

#include <cstdint>

namespace tost {

constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// To whole cache lines.
constexpr int64_t aligned(int64_t bytes) {
  return divide_up(bytes, 64) * 64;
}

}  // namespace tost
