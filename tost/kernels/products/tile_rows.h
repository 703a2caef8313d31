// Products of many rows on the tile units of a CPU (AMX), in bfloat16 or int8. The epilogue
// (row_ops.h) of one block runs while the tile units compute the next block.
#pragma once

#include <cstdint>

#include "tost/kernels/products/wide_rows.h"

namespace tost::kernels {

// Whether this process may use tile units, and multiplies the same numbers without them.
bool has_tiles();

// The groups of inputs in one step: 32 bfloat16 or 64 integers.
inline constexpr int64_t kTileInputs = 16;
// The number of columns in a block of the weight, which is two panels.
inline constexpr int64_t kTileColumns = 2 * kGroupColumns;

// Computes what product() does. Requires has_tiles() and whole steps of inputs; saves and restores
// the configuration of the tile units. A row's result does not depend on other rows.
void tile_product(const ProductArgs& args);

}  // namespace tost::kernels
