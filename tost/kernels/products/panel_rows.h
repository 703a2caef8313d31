// Products of many rows in float32 by AVX-512, with what follows the product (row_ops.h) done on
// each block of sums while it is in the L1 cache.
#pragma once

#include <cstdint>

#include "tost/kernels/row_ops.h"

namespace tost::kernels {

// Whether this CPU has the instructions; false where TOST_ISA names a set below AVX-512.
bool has_panel_product();

inline constexpr int64_t kPanelColumns = 48;
inline constexpr int64_t kFewestPanelRows = 8;
inline constexpr int64_t kPanelInputs = 4;  // their number is a multiple of this, and above 0

struct PanelProductArgs {
  // Rows, columns and all that becomes of the float32 sums; these are never stored, `sums` stays
  // null. At least kFewestPanelRows rows; whole panels of columns.
  FinishRowsArgs finish;
  const float* x = nullptr;  // [rows, inputs]
  int64_t x_stride = 0;
  const float* weight = nullptr;  // of a panel [inputs, kPanelColumns]
  int64_t panel_stride = 0;       // in elements
  int64_t inputs = 0;
};
// Only where has_panel_product() was true. As in row_ops.h, a row's result does not depend on the
// others.
void panel_product(const PanelProductArgs& args);

}  // namespace tost::kernels
