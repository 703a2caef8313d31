// The patch tokens' way through a vision network: stem, position, blocks, and what class attention
// needs of them.
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/engine_weights.h"
#include "tost/nn/block_pass.h"

namespace tost {

class TokenPass : private BlockPass {
 public:
  TokenPass(const VisionConfig& config, const VisionWeights& weights, VisionWorkspace& workspace,
            const float* position)
      : BlockPass(config.dim, weights.blocks[0].fc1.packing(), workspace, workspace.scratch),
        config_(config),
        weights_(weights),
        workspace_(workspace),
        position_(position) {}

  // Takes the pictures [first, first + count) of `images` [.., channels, Y, X] to the end of the
  // blocks and leaves in workspace.classed, rows 1 to N, what the class blocks read. `parallel`
  // with `threads` threads spreads rows; serial_for and 1 where each thread has its own pictures.
  void run(const float* images, int64_t first, int64_t count, ParallelFor parallel,
           int64_t threads) const;

 private:
  void embed(const float* images, int64_t image, ParallelFor parallel, int64_t threads) const;
  const void* rounded_picture(const float* picture, int64_t owner, ParallelFor parallel) const;
  void stem_rows(size_t stage, const void* planes, int64_t image, int64_t owner, Rows rows) const;
  void mix(const TokenBlockWeights& block, const float* shift, int64_t first, int64_t count,
           ParallelFor parallel, int64_t threads) const;
  void mix_by_module(const TokenBlockWeights& block, const float* shift, int64_t first,
                     int64_t count) const;
  void class_rows(int64_t image, Rows rows) const;

  template <class Body>
  void for_tiles(int64_t first, int64_t count, ParallelFor parallel, int64_t threads,
                 const Body& body) const;

  const VisionConfig& config_;
  const VisionWeights& weights_;
  VisionWorkspace& workspace_;
  const float* position_;  // [N, C]
};

// How many output pixels are gathered at a time, so that they stay in the L2 cache.
int64_t stem_tile_rows(const StemStage& stage);

// One stage on the output pixels [first, first + count) of a picture, count <= stem_tile_rows().
struct StemCall {
  const StemStage& stage;
  bool half = false;              // pictures are bfloat16, else float32
  const void* planes = nullptr;   // [from, rows, columns] for the first stage
  const void* picture = nullptr;  // [rows, columns, from] for the others
  int64_t rows = 0, columns = 0;  // of the input
  void* gathered = nullptr;       // scratch [count, product.inputs()]
  void* scratch = nullptr;        // of the product
};
void run_stem_stage(const StemCall& call, int64_t first, int64_t count, const PackedResult& result);

}  // namespace tost
