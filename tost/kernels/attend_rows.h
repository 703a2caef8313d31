// Softmax attention of a few queries to the same rows, for class tokens.
#pragma once

#include <cstdint>

#include "tost/kernels/tssa.h"

namespace tost::kernels {

// Computes weights[h] = softmax over j of scale (query_h · x_j) and out[h] = sum_j weights[h][j]
// x_j. With query_h = W_k,hᵀ q_h the result is attention without keys and values, because q · (W_k
// x) = (W_kᵀ q) · x and values follow from the sum. Arithmetic is float32. Works on the calling
// thread, and does not allocate. Throws only a usage Error for a wrong TOST_ISA (isa.h).
struct AttendRowsArgs {
  int64_t rows = 0;         // N >= 1
  int64_t width = 0;        // C
  int64_t queries = 0;      // H
  const void* x = nullptr;  // [N, C]
  int64_t x_stride = 0;
  DType x_dtype = DType::kFloat32;
  const float* query = nullptr;  // [H, C] contiguous
  float scale = 1;
  float* weights = nullptr;  // [H, N] contiguous
  void* out = nullptr;       // [H, C] contiguous
  DType out_dtype = DType::kFloat32;
};
void attend_rows(const AttendRowsArgs& args);

}  // namespace tost::kernels
