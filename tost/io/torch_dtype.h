// The element types of torch, by name and size; free of torch.
#pragma once

#include <cstdint>
#include <string_view>

namespace tost {

enum class TorchDtype : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
  kFloat8E5m2,
  kFloat8E4m3fn,
  kFloat8E5m2fnuz,
  kFloat8E4m3fnuz,
  kFloat8E8m0fnu,  // the last one whose elements are single real numbers
  kComplex128,
  kComplex64,
  kComplex32,
  kFloat4E2m1fnX2,  // two numbers a byte; tensors of the types after this are not made
  kQInt8,
  kQUInt8,
  kQInt32,
  kQUInt4x2,
  kQUInt2x4,
  kBits8,
  kBits16,
};

struct TorchDtypeInfo {
  TorchDtype dtype;
  const char* name;         // "float32"
  const char* alias;        // torch's other name for it, or ""
  int64_t bytes;            // of one element
  const char* storage;      // class of storages of it, "FloatStorage"; "" where there is none
  const char* safetensors;  // "F32"; "" where files of safetensors here do not hold it
};

const TorchDtypeInfo& dtype_info(TorchDtype dtype);
// The type with this name; nullptr if the table does not have it.
const TorchDtypeInfo* find_torch_dtype(std::string_view name);
const TorchDtypeInfo* find_torch_storage(std::string_view storage_class);
const TorchDtypeInfo* find_safetensors_dtype(std::string_view name);

// Whether a type is a plain one: not complex, quantised, 4-bit or raw.
inline bool is_real(TorchDtype dtype) {
  return dtype <= TorchDtype::kFloat8E8m0fnu;
}

}  // namespace tost
