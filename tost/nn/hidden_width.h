// The width between the two maps of an MLP.
#pragma once

#include <cstdint>

namespace tost {

// floor(dim * ratio), where a ratio that was itself computed as width / dim gives that width back.
inline int64_t hidden_width(int64_t dim, double ratio) {
  constexpr double kRounding = 1e-6;
  return static_cast<int64_t>(static_cast<double>(dim) * ratio + kRounding);
}

}  // namespace tost
