// Convolutional stem: patch = 2ⁿ by n 3x3 stride-2 convolutions with batch norm, GELU between them;
// small models may follow each by further ones of stride 1.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tost/torch.h"

namespace tost {

// Widths C/2ⁿ⁻¹, …, C/2, C, `depth` convolutions of each (officially one). Convolutions keep
// torch's default initialisation, as officially. Checkpoint keys: proj.{0,2,4,…}.{0 convolution, 1
// batch norm}; odd numbers are the GELUs.
class PatchStem : public torch::nn::Module {
 public:
  PatchStem(int64_t in_channels, int64_t dim, int64_t patch, int64_t depth = 1);

  // [B, in_channels, Y, X] → [B, Y/patch, X/patch, C], contiguous: token-major without a transpose,
  // because the convolutions run channels-last.
  torch::Tensor forward(const torch::Tensor& images);

  std::shared_ptr<torch::nn::Module> proj;

 private:
  void add_stage(int64_t from, int64_t to, int64_t stride);

  struct Stage {
    std::shared_ptr<torch::nn::Conv2dImpl> conv;
    std::shared_ptr<torch::nn::BatchNorm2dImpl> norm;
  };
  std::vector<Stage> stages_;
};

}  // namespace tost
