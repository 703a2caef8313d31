// y = x Wᵀ + b for a few rows of x: decoding reads every weight once, so it is bound by memory, and
// general matrix products reach a fraction of what memory gives (MKL's float32 matrix-vector
// product a quarter on Zen 4).
#pragma once

#include <cstdint>

#include "tost/base/parallel.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

inline constexpr int64_t kMostFewRows = 4;

struct FewRowsArgs {
  int64_t rows = 0;               // of x and y, 1 to kMostFewRows
  int64_t inputs = 0;             // >= 0
  int64_t outputs = 0;            // >= 0
  DType dtype = DType::kFloat32;  // of the weight and bias
  const float* x = nullptr;       // [rows, inputs] contiguous
  const void* weight = nullptr;   // [outputs, inputs] contiguous
  const void* bias = nullptr;     // [outputs], may be null
  float* y = nullptr;             // [rows, outputs] contiguous, must not overlap the rest
};

// Sums in float32, in an order that depends on `inputs` and the instruction set alone. Does not
// allocate. Throws a usage Error for a wrong TOST_ISA (isa.h) and for nothing else.
void linear_few_rows(const FewRowsArgs& args, ParallelFor parallel);

}  // namespace tost::kernels
