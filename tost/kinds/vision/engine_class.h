// The class token's way: class attention over the patch tokens, and the head.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/engine_weights.h"
#include "tost/kinds/vision/engine_workspace.h"

namespace tost {

// For all pictures of a pass at once: these products have one row a picture and are bound by
// reading their weights.
class ClassPass {
 public:
  ClassPass(const VisionConfig& config, const VisionWeights& weights, VisionWorkspace& workspace,
            bool half)
      : config_(config), weights_(weights), workspace_(workspace), half_(half) {}

  // Reads workspace.classed of `images` pictures, writes logits [images, classes].
  void run(int64_t images, float* logits) const;

 private:
  void block(size_t index, int64_t images) const;
  void attend(size_t index, int64_t images) const;
  void norm(const NormWeights& norm, const void* x, int64_t images, void* y, int64_t y_stride,
            bool as_float) const;
  void product(const PackedLinear& map, const void* x, int64_t x_stride, int64_t images,
               const PackedResult& result) const;

  int64_t size() const { return half_ ? 2 : 4; }
  kernels::DType dtype() const {
    return half_ ? kernels::DType::kBfloat16 : kernels::DType::kFloat32;
  }
  void* at(void* base, int64_t element) const {
    return static_cast<char*>(base) + element * size();
  }

  const VisionConfig& config_;
  const VisionWeights& weights_;
  VisionWorkspace& workspace_;
  const bool half_;
};

}  // namespace tost
