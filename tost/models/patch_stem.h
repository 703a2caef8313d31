// Convolutional stem: patch = 2ⁿ by n 3x3 stride-2 convolutions with batch norm, GELU between them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tost {

// Widths C/2ⁿ⁻¹, …, C/2, C. Convolutions keep torch's default initialisation, as officially.
// Checkpoint keys: proj.{0,2,4,6}.{0 convolution, 1 batch norm}; odd numbers are the GELUs.
class PatchStem : public torch::nn::Module {
 public:
  PatchStem(int64_t in_channels, int64_t dim, int64_t patch);

  // [B, in_channels, Y, X] → [B, Y/patch, X/patch, C], contiguous: token-major without a transpose,
  // because the convolutions run channels-last.
  torch::Tensor forward(const torch::Tensor& images);

  std::shared_ptr<torch::nn::Module> proj;

 private:
  struct Stage {
    std::shared_ptr<torch::nn::Conv2dImpl> conv;
    std::shared_ptr<torch::nn::BatchNorm2dImpl> norm;
  };
  std::vector<Stage> stages_;
};

}  // namespace tost
