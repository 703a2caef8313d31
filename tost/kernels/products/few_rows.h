// Computes y = x Wᵀ + b for a few rows of x. Decoding reads every weight once, so memory limits its
// speed. General matrix products reach a fraction of the speed of memory (MKL's float32 product a
// quarter on Zen 4). Weights may have fewer bits than the arithmetic.
#pragma once

#include <cstdint>

namespace tost::kernels {

inline constexpr int64_t kMostFewRows = 4;  // for which memory limits the speed

// The outputs of a panel of weights; missing ones are zeros.
inline constexpr int64_t kPanelColumns = 16;

// The storage of a weight [outputs, inputs]. kFloat32 and kInt8 have panels [inputs,
// kPanelColumns]. kInt8: w = value * scale of its output, with values -127 to 127. kBfloat16 has an
// even number of panels [pairs of inputs, kPanelColumns, 2], as products of bfloat16 read them
// (wide_rows.h). kInt4 has rows, padded to a multiple of 128 inputs with scale 0: w = (value - 8) *
// scale of its group of 32 adjacent inputs, in the order of int4_position().
enum class WeightType : uint8_t { kFloat32, kBfloat16, kInt8, kInt4 };

inline constexpr int64_t kInt4Group = 32;
inline constexpr int64_t int4_groups(int64_t inputs) {
  return (inputs + 127) / 128 * 4;
}
inline constexpr int64_t int4_row_bytes(int64_t inputs) {
  return int4_groups(inputs) * kInt4Group / 2;
}
// Input 8 k + l of a group is in bits 4 k to 4 k + 3 of the group's l-th 16-bit word.
struct Int4Position {
  int64_t byte, shift;
};
inline constexpr Int4Position int4_position(int64_t input) {
  const int64_t in_group = input % kInt4Group, k = in_group / 8;
  return {(input - in_group) / 2 + in_group % 8 * 2 + k / 2, k % 2 * 4};
}

// The inputs of a panel.
inline constexpr int64_t panel_inputs(WeightType type, int64_t inputs) {
  return inputs + (type == WeightType::kBfloat16 ? inputs % 2 : 0);
}

struct FewRowsArgs {
  int64_t rows = 0;     // of x and y
  int64_t inputs = 0;   // >= 0
  int64_t outputs = 0;  // >= 0
  WeightType type = WeightType::kFloat32;
  const float* x = nullptr;  // [rows, inputs] contiguous; unused where it is prepared or rounded
  // The result of prepare_few_rows(), for types that need it.
  const void* prepared = nullptr;
  // x in bfloat16, or null; selects products of bfloat16 (multiplies()) for weights of kBfloat16.
  // `inputs` > 0 must then be even and `begin` a multiple of shared_columns() or kTileColumns.
  const uint16_t* rounded = nullptr;
  const void* weight = nullptr;  // contiguous panels; kInt4: rows of int4_row_bytes()
  // Scales: float32 [outputs] for kInt8, bfloat16 [outputs, int4_groups()] for kInt4, else null.
  const void* scales = nullptr;
  const float* bias = nullptr;  // [outputs], or null
  // gamma [outputs] or null; with gamma the product is y += gamma * (x Wᵀ + b).
  const float* gamma = nullptr;
  float* y = nullptr;  // [rows, outputs] contiguous, must not overlap the rest
};

// Computes outputs begin to end - 1: whole panels, but for the last; of kInt4 any. Adds in float32,
// in an order that depends only on `inputs`, type, instruction set and whether x is rounded: a row
// has the same bits among any others, and an output in any part. Does not allocate. Throws only a
// usage Error for a wrong TOST_ISA (isa.h).
void linear_few_rows(const FewRowsArgs& args, int64_t begin, int64_t end);

// Writes x [rows, inputs] in the form that the kernel of a type reads. A row has prepared_stride()
// bytes; 0 means that the kernel reads x itself. kInt4 rounds each row to 16 bits, within 1.6e-5 of
// its largest value. A value that is not finite makes every output of its row not finite.
// `prepared` is 64-byte aligned.
inline constexpr int64_t int4_input_stride(int64_t groups) {
  return (groups * 68 + 68 + 63) / 64 * 64;
}
inline constexpr int64_t prepared_stride(WeightType type, int64_t inputs) {
  return type == WeightType::kInt4 ? int4_input_stride(int4_groups(inputs)) : 0;
}
void prepare_few_rows(WeightType type, const float* x, int64_t rows, int64_t inputs,
                      void* prepared);

}  // namespace tost::kernels
