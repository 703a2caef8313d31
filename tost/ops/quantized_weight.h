// Rounds weights to eight or four bits, and reads them again.
//
// In int8 w = value * scale, with values -127 to 127 and a scale for each output, max |w| / 127. In
// int4 values are -7 to 7, and each group of 32 adjacent inputs has a scale, max |w| / 7; the last
// group of a row may be shorter. Scales have 16 (int8) or 8 (int4) bits of mantissa: value * scale
// is exact in float32, and rounding a weight again does not change it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tost/kernels/products/few_rows.h"

namespace tost {

struct QuantizedWeight {
  kernels::WeightType type;  // kInt8 or kInt4
  // int8 [out, in]; for int4 uint8 [out, (in + 1) / 2], where byte j holds value + 8 of input 2 j
  // in the low half and of 2 j + 1, or 8 after the last input, in the high half.
  at::Tensor values;
  at::Tensor scales;   // [out] float32; or [out, (in + 31) / 32] bfloat16
  int64_t inputs = 0;  // in
};

// Rounds a weight [out, in], float32 or bfloat16 on the CPU. Throws a data Error, which names only
// the reason, if a value is not finite, and a usage Error for other shapes.
QuantizedWeight quantize_int8(const at::Tensor& weight);
QuantizedWeight quantize_int4(const at::Tensor& weight);
QuantizedWeight quantize(const at::Tensor& weight, kernels::WeightType type);

// [out, in] float32.
at::Tensor dequantize(const QuantizedWeight& weight);

// Reorders a weight for kernels/products/few_rows.h. int8 has that order already; int4 becomes rows
// uint8 [out, int4_row_bytes(in)] and scales bfloat16 [out, int4_groups(in)].
QuantizedWeight step_rows(const QuantizedWeight& weight);
// Reads a row of step_rows() as float32. Takes its tensors, which threads should not copy.
void read_step_row(kernels::WeightType type, const at::Tensor& values, const at::Tensor& scales,
                   int64_t inputs, int64_t index, float* to);

}  // namespace tost
