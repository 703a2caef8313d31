// The patch tokens' way through a vision network: stem, position, blocks, and what class attention
// needs of them.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/infer/vision_weights.h"
#include "tost/infer/vision_workspace.h"
#include "tost/models/vision_config.h"

namespace tost {

class TokenPass {
 public:
  // `half`: tokens are stored as bfloat16, the products are bfloat16 or int8.
  TokenPass(const VisionConfig& config, const VisionWeights& weights, VisionWorkspace& workspace,
            const float* position, bool half)
      : config_(config),
        weights_(weights),
        workspace_(workspace),
        position_(position),
        half_(half) {}

  // Takes the pictures [first, first + count) of `images` [.., channels, Y, X] to the end of the
  // blocks and leaves in workspace.classed, rows 1 to N, what the class blocks read. `parallel`
  // with `threads` threads spreads rows; serial_for and 1 where each thread has its own pictures.
  void run(const float* images, int64_t first, int64_t count, ParallelFor parallel,
           int64_t threads) const;

 private:
  struct Rows {
    int64_t first, count;
  };

  void embed(const float* images, int64_t image, ParallelFor parallel, int64_t threads) const;
  void stem_rows(size_t stage, const float* picture, int64_t image, int64_t owner, Rows rows) const;
  void mix(const VisionBlockWeights& block, const float* shift, int64_t first, int64_t count,
           ParallelFor parallel, int64_t threads) const;
  void mix_by_module(const VisionBlockWeights& block, const float* shift, int64_t first,
                     int64_t count) const;
  void front(const VisionBlockWeights& block, const float* shift, Rows rows) const;
  void back(const VisionBlockWeights& block, Rows rows) const;
  void mlp_onto_stream(const VisionBlockWeights& block, const PackedRows& x, Rows rows) const;
  void mlp_in_int8(const VisionBlockWeights& block, const PackedRows& x, Rows rows) const;
  void class_rows(int64_t image, Rows rows) const;

  void norm(const NormWeights& norm, const float* shift, Rows rows, bool as_float) const;
  PackedRows normed_rows(const NormWeights& norm, const float* shift, Rows rows) const;
  PackedRows stored_rows(const void* data, int64_t width, int64_t count, Packing packing) const;
  template <class Body>
  void for_tiles(int64_t first, int64_t count, ParallelFor parallel, int64_t threads,
                 const Body& body) const;

  int64_t size() const { return half_ ? 2 : 4; }
  kernels::DType dtype() const {
    return half_ ? kernels::DType::kBfloat16 : kernels::DType::kFloat32;
  }
  const ThreadScratch& scratch() const;
  float* stream(int64_t row) const { return workspace_.stream + row * config_.dim; }
  void* at(void* base, int64_t row, int64_t width) const {
    return static_cast<char*>(base) + row * width * size();
  }

  const VisionConfig& config_;
  const VisionWeights& weights_;
  VisionWorkspace& workspace_;
  const float* position_;  // [N, C]
  const bool half_;
};

}  // namespace tost
