// The element types of torch, by name and size; free of torch.
#pragma once

#include <cstdint>
#include <string>
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
  kFloat8E8m0fnu,
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
  // The number at an address of any alignment, a bool as 0 or 1; null for types that are not plain:
  // complex, quantised, 4-bit and raw ones.
  double (*number)(const char* element) = nullptr;
};

const TorchDtypeInfo& dtype_info(TorchDtype dtype);
// The type with this name; nullptr if the table does not have it.
const TorchDtypeInfo* find_torch_dtype(std::string_view name);
const TorchDtypeInfo* find_torch_storage(std::string_view storage_class);
const TorchDtypeInfo* find_safetensors_dtype(std::string_view name);

// Refuses bools other than 0 and 1, which are undefined behaviour in C++, with a data Error that
// begins with `where`.
void check_booleans(std::string_view bytes, const std::string& where);

}  // namespace tost
