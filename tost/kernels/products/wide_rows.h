// Products of rows in float32, with the epilogue (row_ops.h) applied to each block of sums while it
// is in the L1 cache; and of bytes by AVX2.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"

namespace tost::kernels {

// The columns of a panel that the instruction set in use multiplies fastest.
int64_t wide_columns();

struct WideProductArgs {
  // The rows, columns and epilogue of the float32 sums, which are never stored: `sums` stays null.
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

// ---- Integers of eight bits, held in 16: for CPUs that add products of 16-bit numbers in pairs
// (AVX2), but have no instruction for those of bytes (VNNI). ----

// Whether AVX2 is the instruction set in use; with AVX-512 float32 is as fast.
bool has_pair_product();

inline constexpr int64_t kPairColumns = 16;

// Computes sums = x weight, exactly if no sum overflows int32.
struct PairProductArgs {
  int64_t rows = 0;
  int64_t inputs = 0;          // even, above 0
  const int16_t* x = nullptr;  // [rows, inputs]
  int64_t x_stride = 0;
  const int16_t* weight = nullptr;  // [inputs / 2, kPairColumns, 2]
  int32_t* sums = nullptr;          // [rows, kPairColumns], contiguous
};
// Requires has_pair_product().
void pair_product(const PairProductArgs& args);

}  // namespace tost::kernels
