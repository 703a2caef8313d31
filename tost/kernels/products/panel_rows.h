// Products of many rows: in float32 by AVX-512, with the epilogue (row_ops.h) on each block of sums
// in the L1 cache, and of bytes by AVX2.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"

namespace tost::kernels {

// Whether this CPU has AVX-512, and TOST_ISA names no lower set.
bool has_panel_product();

inline constexpr int64_t kPanelColumns = 48;
inline constexpr int64_t kFewestPanelRows = 8;
inline constexpr int64_t kPanelInputs = 4;  // their number is a multiple of this, and above 0

struct PanelProductArgs {
  // The rows, the columns and the epilogue of the float32 sums, which are never stored: `sums`
  // stays null. A call has at least kFewestPanelRows rows, and whole panels of columns.
  FinishRowsArgs finish;
  const float* x = nullptr;  // [rows, inputs]
  int64_t x_stride = 0;
  const float* weight = nullptr;  // of a panel [inputs, kPanelColumns]
  int64_t panel_stride = 0;       // in elements
  int64_t inputs = 0;
};
// Requires has_panel_product(). A row's result does not depend on other rows, as in row_ops.h.
void panel_product(const PanelProductArgs& args);

// ---- Integers of eight bits, stored in 16 bits, for CPUs that add pairs of 16-bit products (AVX2)
// but not of bytes (VNNI). ----

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
