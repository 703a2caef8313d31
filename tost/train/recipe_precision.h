// The precision of recipes that are meant for bf16.
#pragma once

#include "tost/nn/precision.h"
#include "tost/ops/device.h"
#include "tost/ops/product_support.h"

namespace tost {

// bf16; fp32 where there is no GPU and the CPU does not multiply bfloat16, which takes many times
// as long.
inline Precision recipe_precision() {
  const bool fast = multiplies_as_packed(Packing::kBfloat16) || gpu_count() > 0;
  return fast ? Precision::kBf16 : Precision::kFp32;
}

}  // namespace tost
