// Which matrix products the microkernels of this CPU take.
#pragma once

#include <cstdint>

#include "tost/engine/precision.h"

namespace tost {

// Found by trying them once and comparing the sums; a product that is missing here is computed in
// pairs (int8) or in float32 on the same rounded numbers, with the same result to rounding.
struct ProductSupport {
  bool float32 = false;  // else the general matrix product serves
  bool bfloat16 = false;
  bool int8 = false;

  bool of(Packing packing) const {
    return packing == Packing::kFloat32 ? float32 : packing == Packing::kBfloat16 ? bfloat16 : int8;
  }
};
const ProductSupport& product_support();

// Whether kInt8 has no microkernel here but pair_product() serves.
bool int8_by_pairs();

// Whether products of a packing multiply its numbers without conversion here; else they take the
// time of float32. And the method, in words.
bool multiplies_as_packed(Packing packing);
const char* product_method(Packing packing);

}  // namespace tost
