// Two-dimensional Fourier position code and its learned 1x1 projection. Nothing is learned per
// position, so any grid works.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "tost/torch.h"

namespace tost {

class FourierPosition : public torch::nn::Module {
 public:
  explicit FourierPosition(int64_t dim);

  static constexpr int64_t kChannels = 64;  // of the unlearned code

  // [rows * columns, C], to be added to row-major tokens. The table behind it is kept for the last
  // grid asked for. Safe to call from several threads.
  torch::Tensor forward(int64_t rows, int64_t columns);

  // The unlearned code [rows * columns, 64]: 32 channels of the row, then 32 of the column; sine
  // and cosine interleaved over 16 frequencies 10000^(-i/16); coordinates (1 … n) * 2π / (n +
  // 1e-6).
  static torch::Tensor table(int64_t rows, int64_t columns);

  std::shared_ptr<torch::nn::Conv2dImpl> token_projection;  // 1x1, 64 → C

 private:
  torch::Tensor cached_table(int64_t rows, int64_t columns);

  std::mutex mutex_;
  int64_t rows_ = 0, columns_ = 0;
  torch::Tensor table_;
};

}  // namespace tost
