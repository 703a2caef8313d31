// Which matrix products the microkernels of this CPU take.
#pragma once

#include <cstdint>
#include <string>

namespace tost {

// What a packed product computes with; sums are float32 (float32, bfloat16) or int32 (int8).
enum class Packing : uint8_t {
  kFloat32,
  kBfloat16,  // rows and weight rounded to bfloat16
  kInt8,      // uint8 rows (quantize_rows) times int8 weights
};

// Found by trying them once and comparing the sums; a product that is missing here is computed in
// float32 on the same rounded numbers, with the same result to rounding.
struct ProductSupport {
  bool float32 = false;  // else the general matrix product serves
  bool bfloat16 = false;
  bool int8 = false;

  bool of(Packing packing) const {
    return packing == Packing::kFloat32 ? float32 : packing == Packing::kBfloat16 ? bfloat16 : int8;
  }
};
const ProductSupport& product_support();

// The fastest precision the CPU takes: "int8", "bf16" or "fp32".
std::string fastest_precision();

}  // namespace tost
