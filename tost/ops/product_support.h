// Reports which matrix products the microkernels of this CPU support.
#pragma once

#include <cstdint>

#include "tost/engine/precision.h"

namespace tost {

// One trial of each product finds the result. A product that is missing is computed in pairs (int8)
// or in float32 on the same rounded numbers, with the same result to rounding.
struct ProductSupport {
  bool float32 = false;  // else the general matrix product serves
  bool bfloat16 = false;
  bool int8 = false;

  bool of(Packing packing) const {
    return packing == Packing::kFloat32 ? float32 : packing == Packing::kBfloat16 ? bfloat16 : int8;
  }
};
const ProductSupport& product_support();

// Whether kInt8 has no microkernel on this CPU, but pair_product() computes it.
bool int8_by_pairs();

// Whether this CPU multiplies the numbers of a packing without conversion, and a text that names
// the method. A conversion takes the time of float32.
bool multiplies_as_packed(Packing packing);
const char* product_method(Packing packing);

}  // namespace tost
