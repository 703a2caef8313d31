// Softmax attention of a few queries to the same rows: of class tokens to a picture, and of the
// tokens of a head to its keys and values.
#pragma once

#include <cstdint>

#include "tost/kernels/tssa.h"

namespace tost::kernels {

// Computes weights[h] = softmax over j of scale (query_h · x_j) and out[h] = sum_j weights[h][j]
// v_j. With query_h = W_k,hᵀ q_h and v = x the result is attention without keys and values, because
// q · (W_k x) = (W_kᵀ q) · x and values follow from the sum. Arithmetic is float32. Works on the
// calling thread, and does not allocate. Throws only a usage Error for a wrong TOST_ISA (isa.h).
struct AttendRowsArgs {
  int64_t rows = 0;         // N >= 1
  int64_t width = 0;        // C
  int64_t queries = 0;      // H
  const void* x = nullptr;  // [N, C]
  int64_t x_stride = 0;
  DType x_dtype = DType::kFloat32;
  const float* query = nullptr;  // [H, C] contiguous, or with a stride
  float scale = 1;
  float* weights = nullptr;  // [H, N] contiguous; if causal, work of [kAttendTogether, N]
  void* out = nullptr;       // [H, C] contiguous, or with a stride
  DType out_dtype = DType::kFloat32;
  const void* values = nullptr;                                 // [N, C] of x's type; null: x
  int64_t values_stride = 0, query_stride = 0, out_stride = 0;  // 0: contiguous
  // If causal, query h sees the rows up to N - H + h; with a window > 0 the last `window` of these.
  bool causal = false;
  int64_t window = 0;
};
void attend_rows(AttendRowsArgs args);

constexpr int kAttendTogether = 4;  // queries that share a load of x

}  // namespace tost::kernels
