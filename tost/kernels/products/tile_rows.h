// Products of many rows on the tile units of a CPU (AMX), in bfloat16 or int8. The epilogue
// (row_ops.h) of one block runs while the tile units compute the next block.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"

namespace tost::kernels {

// Whether this process may use tile units, and TOST_ISA names no set below AVX-512.
bool has_tiles();

// The bytes of inputs in one step: 32 bfloat16 or 64 integers.
inline constexpr int64_t kTileStep = 64;
// The number of columns in a block of the weight.
inline constexpr int64_t kTileColumns = 32;

// Memory to prefetch into the L2 cache during the product, in `pieces` of `bytes` bytes that are
// `stride` bytes apart. Prefetching has no effect on results.
struct FetchAhead {
  const char* data = nullptr;
  int64_t bytes = 0, stride = 0, pieces = 0;
};

// The weight has blocks of kTileColumns columns, padded with zeros. A block is [2, inputs / group,
// 16, group]: half of the columns, group of inputs, column, input of the group. A group is 2
// bfloat16 or 4 int8, adjacent weights of one column.
struct TileProductArgs {
  // The rows, the columns and the epilogue of the sums, which are never stored: `sums` stays null.
  // With column_scale sums are integers, rows uint8, the weight int8; else both are bfloat16.
  FinishRowsArgs finish;
  const void* x = nullptr;  // [rows, steps * kTileStep bytes]
  int64_t x_bytes = 0;      // from row to row
  const void* weight = nullptr;
  int64_t block_bytes = 0;  // from block to block
  int64_t steps = 0;
  FetchAhead next = {};  // the weights of the caller's next product
};
// Requires has_tiles(); saves and restores the configuration of the tile units. A row's result does
// not depend on other rows, as in row_ops.h.
void tile_product(const TileProductArgs& args);

}  // namespace tost::kernels
