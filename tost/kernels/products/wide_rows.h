// Products of rows in float32, with the epilogue (row_ops.h) applied to each block of sums while it
// is in the L1 cache.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"

namespace tost::kernels {

// The columns of a panel that the instruction set in use multiplies fastest.
int64_t wide_columns();

struct WideProductArgs {
  // The rows, the columns and the epilogue of the float32 sums, which are never stored: `sums`
  // stays null.
  FinishRowsArgs finish;
  const float* x = nullptr;  // [rows, inputs]
  int64_t x_stride = 0;
  // Of a panel [inputs, panel_columns]; the last one is filled up with zeros.
  const float* weight = nullptr;
  int64_t panel_columns = 0;  // a multiple of 16
  int64_t panel_stride = 0;   // in elements
  int64_t inputs = 0;
};
// Adds the products of a row in the order of the inputs: its result depends neither on the other
// rows nor on the columns and panels of the call.
void wide_product(const WideProductArgs& args);

}  // namespace tost::kernels
