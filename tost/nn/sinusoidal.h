// Positions as sines and cosines, which need no weights (arXiv 1706.03762).
#pragma once

#include <cstdint>
#include <mutex>

#include "tost/torch.h"

namespace tost {

// Sines and cosines of the position, interleaved, at wave lengths from 2 pi to 10000 * 2 pi:
// [tokens, dim] float32.
torch::Tensor sinusoidal_positions(int64_t tokens, int64_t dim);

// Keeps the table of the longest sequence so far. Threads may share it.
class SinusoidalTable {
 public:
  // [tokens, dim] of the type and on the device of `like`, whose last size is dim.
  torch::Tensor rows(int64_t tokens, const torch::Tensor& like);

 private:
  std::mutex mutex_;
  torch::Tensor table_;
};

}  // namespace tost
