// Products of many rows on the tile units of a CPU (AMX): bfloat16 or int8, with what follows the
// product (row_ops.h) done on one block of sums while the tile units work on the next.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"

namespace tost::kernels {

// Whether this CPU has the units and the system lets this process use them; false where TOST_ISA
// names a set below AVX-512.
bool has_tiles();

// Inputs are taken in steps of this many bytes: 32 bfloat16 or 64 integers.
inline constexpr int64_t kTileStep = 64;
// Columns of a block of the weight.
inline constexpr int64_t kTileColumns = 32;

// Memory to prefetch into the L2 cache meanwhile, as much of it as fits with the rest:
// `pieces` times `bytes`, `stride` bytes from one to the next. A hint: results do not depend on it.
struct FetchAhead {
  const char* data = nullptr;
  int64_t bytes = 0, stride = 0, pieces = 0;
};

// The weight is laid out in blocks of kTileColumns columns (zeros beyond the last), each of them
// [steps, 2, 16, 16, group]: step, half of the columns, group of inputs, column, input of the
// group; a group is 2 bfloat16 or 4 int8, adjacent weights of one column.
struct TileProductArgs {
  // Rows, columns and all that becomes of the sums. These are never stored: `sums` stays null. If
  // column_scale is given, they are integers, rows are uint8 and the weight is int8. Else rows and
  // weight are bfloat16.
  FinishRowsArgs finish;
  const void* x = nullptr;  // [rows, steps * kTileStep bytes]
  int64_t x_bytes = 0;      // from row to row
  const void* weight = nullptr;
  int64_t block_bytes = 0;  // from block to block
  int64_t steps = 0;
  FetchAhead next = {};  // the weights of the caller's next product
};
// Only where has_tiles() was true; saves and restores the configuration of the tile units. As in
// row_ops.h, a row's result does not depend on the others.
void tile_product(const TileProductArgs& args);

}  // namespace tost::kernels
