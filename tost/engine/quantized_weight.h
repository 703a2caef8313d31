// Weights in eight or four bits: rounding, layout and conversion.
//
// int8: w = value * scale with values from -127 to 127 and the scale max |w| / 127 for each output.
// int4: values from -7 to 7 and the scale max |w| / 7 for each group of 32 adjacent inputs; the
// last group of a row may be shorter. Scales are rounded (int8 to 16, int4 to 8 bits of mantissa),
// so that value * scale is exact in float32 and a second rounding changes no bit.
#pragma once

#include <cstdint>
#include <string>

#include "tost/engine/array.h"
#include "tost/kernels/products/few_rows.h"

namespace tost {

struct QuantizedWeight {
  kernels::WeightType type;  // kInt8 or kInt4
  // int8 values [out, in], or int4 values in uint8 [out, (in + 1) / 2]: byte j has value + 8 of
  // input 2 j in the low and of input 2 j + 1 in the high half.
  Array values;
  Array scales;        // [out] float32; or [out, (in + 31) / 32] bfloat16
  int64_t inputs = 0;  // in
};

// Rounds weight [out, in] of float32, float16 or bfloat16. Throws a data Error with the reason for
// a value that is not finite, and a usage Error for other shapes.
QuantizedWeight quantize_int8(const Array& weight);
QuantizedWeight quantize_int4(const Array& weight);
QuantizedWeight quantize(const Array& weight, kernels::WeightType type);

// [out, in] float32.
Array dequantize(const QuantizedWeight& weight);

// Reads the integers `name` and the scales `name`.scale of a weight [out, in] from a file. Throws a
// data Error about `where` naming the tensor for wrong types or sizes, values that no weight has,
// and scales that are negative, not finite or too large for their values.
QuantizedWeight stored_integers(const Array& values, const Array& scales, int64_t out, int64_t in,
                                const std::string& name, const std::string& where);

// Converts int4 to the rows of kernels/products/few_rows.h: uint8 [out, int4_row_bytes(in)] and
// scales bfloat16 [out, int4_groups(in)]. Returns int8 as it is.
QuantizedWeight step_rows(const QuantizedWeight& weight);
// Converts one of these rows of int4 to float32.
void read_int4_row(const Array& values, const Array& scales, int64_t inputs, int64_t index,
                   float* to);

}  // namespace tost
