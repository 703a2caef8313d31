// Maps element types of files to those of torch's tensors.
#pragma once

#include <array>

#include "tost/io/torch_dtype.h"
#include "tost/torch.h"

namespace tost {

// The types in the order of TorchDtype, up to the last one that tensors can have.
inline constexpr auto kScalarTypes = [] {
  using enum c10::ScalarType;
  return std::array{Double,
                    Float,
                    Half,
                    BFloat16,
                    Long,
                    Int,
                    Short,
                    Char,
                    UInt64,
                    UInt32,
                    UInt16,
                    Byte,
                    Bool,
                    Float8_e5m2,
                    Float8_e4m3fn,
                    Float8_e5m2fnuz,
                    Float8_e4m3fnuz,
                    Float8_e8m0fnu,
                    ComplexDouble,
                    ComplexFloat,
                    ComplexHalf,
                    Float4_e2m1fn_x2};
}();
static_assert(kScalarTypes.size() == size_t(TorchDtype::kFloat4E2m1fnX2) + 1);

}  // namespace tost
