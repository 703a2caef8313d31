// The convolutions of the stem as products over gathered pixels.
#pragma once

#include <cstdint>

#include "tost/kinds/vision/engine_weights.h"

namespace tost {

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
