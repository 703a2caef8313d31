// Finds out which matrix products this CPU has microkernels for.
#pragma once

#include <cstdint>

namespace tost {

// The types of packed products; sums are float32 (of float32, bfloat16) or int32 (of int8).
enum class Packing : uint8_t {
  kFloat32,
  kBfloat16,  // rows and weight rounded to bfloat16
  kInt8,      // uint8 rows (quantize_rows) times int8 weights
};

// The products that this CPU has, found by trying each and comparing sums. A missing one is
// computed in pairs (int8), or in float32 on the rounded numbers, with the same result up to
// rounding.
struct ProductSupport {
  bool float32 = false;  // else the general matrix product serves
  bool bfloat16 = false;
  bool int8 = false;

  bool of(Packing packing) const {
    return packing == Packing::kFloat32 ? float32 : packing == Packing::kBfloat16 ? bfloat16 : int8;
  }
};
const ProductSupport& product_support();

// Whether pair_product() replaces a missing microkernel of kInt8.
bool int8_by_pairs();

// Whether this CPU multiplies the numbers of a packing without converting them to float32, which
// takes the time of float32 products; and the method in words.
bool multiplies_as_packed(Packing packing);
const char* product_method(Packing packing);

}  // namespace tost
