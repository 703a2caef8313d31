// LayerNorm, and the epilogues of matrix products in a network, on tiles of rows: bias, activation
// and residual, and the rounding of rows to integers.
//
// A call works on the calling thread; the caller divides rows into tiles that stay in the caches.
// Strides count elements, columns are adjacent, and the number of rows may be 0. Arithmetic is
// float32 for every storage type; bfloat16 is rounded to nearest even on store. The result of a row
// does not depend on other rows. No function allocates; functions throw only a usage Error for a
// wrong TOST_ISA (isa.h). Instruction sets agree up to rounding.
#pragma once

#include <cstdint>

#include "tost/kernels/tssa.h"

namespace tost::kernels {

enum class RowType : uint8_t { kFloat32, kBfloat16, kUint8 };

enum class Activation : uint8_t {
  kNone,
  kGelu,      // x Phi(x), by erf
  kGeluTanh,  // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};

// Computes y = (x - mean) / sqrt(variance + eps) weight + bias for each row. kUint8 stores the row
// as quantize_rows() does. y may be x if both have the same type and stride.
struct NormRowsArgs {
  int64_t rows = 0;
  int64_t width = 0;  // >= 1
  const void* x = nullptr;
  int64_t x_stride = 0;
  DType x_dtype = DType::kFloat32;
  const float* weight = nullptr;  // [width]
  const float* bias = nullptr;    // [width], may be null
  float eps = 1e-6f;
  void* y = nullptr;
  int64_t y_stride = 0;
  RowType y_type = RowType::kFloat32;
  // Only with kUint8.
  float* scale = nullptr;   // [rows]
  int32_t* zero = nullptr;  // [rows]
  // A vector [width] to add to x first; x must then be float32. x + shift is stored in `shifted`,
  // which has the rows of x and may be x.
  const float* shift = nullptr;
  float* shifted = nullptr;
};
void norm_rows(const NormRowsArgs& args);

// Rounds x to bytes y with x ~ scale (y - zero). The range of a row's values and 0 gives scale =
// (max - min) / 255 and zero, from 0 to 255, so that zeros stay exact. A row of zeros has scale 0.
// A row with NaN or infinity gets scale NaN, so that all results of the row are NaN.
struct QuantizeRowsArgs {
  int64_t rows = 0;
  int64_t width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  DType x_dtype = DType::kFloat32;
  uint8_t* y = nullptr;
  int64_t y_stride = 0;
  float* scale = nullptr;   // [rows]
  int32_t* zero = nullptr;  // [rows]
};
void quantize_rows(const QuantizeRowsArgs& args);

// The epilogue of a matrix product on one panel of its columns:
//   value = activation(sums + bias), or for integer sums
//   value = activation(row_scale column_scale (sums - row_zero column_sum) + bias);
//   out = value, or with `add`, which goes with no activation, out + gamma value.
// An activation stored as float32 has the error of the plain float32 form. An activation stored as
// bfloat16 has an error below one unit for results above 2^-6, and below 1e-4 for others. For
// integer sums, whose results are then rounded to bytes, the error is at most 1.2e-3 larger.
struct FinishRowsArgs {
  int64_t rows = 0;
  int64_t columns = 0;
  const void* sums = nullptr;  // float32, or int32 where column_scale is given
  int64_t sums_stride = 0;
  // The factors of integer sums; null for other sums.
  const float* row_scale = nullptr;     // [rows]
  const int32_t* row_zero = nullptr;    // [rows]
  const float* column_scale = nullptr;  // [columns]
  const int32_t* column_sum = nullptr;  // [columns], sums of the integer weights

  const float* bias = nullptr;  // [columns], may be null
  Activation activation = Activation::kNone;
  bool add = false;
  const float* gamma = nullptr;  // [columns], with `add`; null: 1
  void* out = nullptr;           // must not overlap sums
  int64_t out_stride = 0;
  DType out_dtype = DType::kFloat32;
};
void finish_rows(const FinishRowsArgs& args);

// Rounds contiguous rows to bfloat16.
inline void round_rows(const float* x, int64_t rows, int64_t columns, void* y) {
  FinishRowsArgs a{.rows = rows, .columns = columns, .sums = x, .sums_stride = columns, .out = y};
  a.out_stride = columns;
  a.out_dtype = DType::kBfloat16;
  finish_rows(a);
}

}  // namespace tost::kernels
