#include "tost/io/torch_dtype.h"

namespace tost {
namespace {

using enum TorchDtype;
constexpr TorchDtypeInfo kDtypes[] = {
    {kFloat64, "float64", "double", 8, "DoubleStorage", "F64"},
    {kFloat32, "float32", "float", 4, "FloatStorage", "F32"},
    {kFloat16, "float16", "half", 2, "HalfStorage", "F16"},
    {kBFloat16, "bfloat16", "", 2, "BFloat16Storage", "BF16"},
    {kInt64, "int64", "long", 8, "LongStorage", "I64"},
    {kInt32, "int32", "int", 4, "IntStorage", "I32"},
    {kInt16, "int16", "short", 2, "ShortStorage", "I16"},
    {kInt8, "int8", "", 1, "CharStorage", "I8"},
    {kUInt64, "uint64", "", 8, "", "U64"},
    {kUInt32, "uint32", "", 4, "", "U32"},
    {kUInt16, "uint16", "", 2, "", "U16"},
    {kUInt8, "uint8", "", 1, "ByteStorage", "U8"},
    {kBool, "bool", "", 1, "BoolStorage", "BOOL"},
    {kFloat8E5m2, "float8_e5m2", "", 1, "", "F8_E5M2"},
    {kFloat8E4m3fn, "float8_e4m3fn", "", 1, "", "F8_E4M3"},
    {kFloat8E5m2fnuz, "float8_e5m2fnuz", "", 1, "", ""},
    {kFloat8E4m3fnuz, "float8_e4m3fnuz", "", 1, "", ""},
    {kFloat8E8m0fnu, "float8_e8m0fnu", "", 1, "", ""},
    {kComplex128, "complex128", "cdouble", 16, "ComplexDoubleStorage", ""},
    {kComplex64, "complex64", "cfloat", 8, "ComplexFloatStorage", ""},
    {kComplex32, "complex32", "chalf", 4, "", ""},
    {kFloat4E2m1fnX2, "float4_e2m1fn_x2", "", 1, "", ""},
    {kQInt8, "qint8", "", 1, "QInt8Storage", ""},
    {kQUInt8, "quint8", "", 1, "QUInt8Storage", ""},
    {kQInt32, "qint32", "", 4, "QInt32Storage", ""},
    {kQUInt4x2, "quint4x2", "", 1, "QUInt4x2Storage", ""},
    {kQUInt2x4, "quint2x4", "", 1, "QUInt2x4Storage", ""},
    {kBits8, "bits8", "", 1, "", ""},
    {kBits16, "bits16", "", 2, "", ""},
};

}  // namespace

const TorchDtypeInfo& dtype_info(TorchDtype dtype) {
  return kDtypes[static_cast<size_t>(dtype)];
}

const TorchDtypeInfo* find_torch_dtype(std::string_view name) {
  for (const TorchDtypeInfo& info : kDtypes) {
    if (name == info.name || (!name.empty() && name == info.alias)) return &info;
  }
  return nullptr;
}

const TorchDtypeInfo* find_torch_storage(std::string_view storage_class) {
  // Treats an UntypedStorage as bytes, because only its tensors have a type.
  if (storage_class == "UntypedStorage") return &dtype_info(kUInt8);
  for (const TorchDtypeInfo& info : kDtypes) {
    if (!storage_class.empty() && storage_class == info.storage) return &info;
  }
  return nullptr;
}

const TorchDtypeInfo* find_safetensors_dtype(std::string_view name) {
  for (const TorchDtypeInfo& info : kDtypes) {
    if (!name.empty() && name == info.safetensors) return &info;
  }
  return nullptr;
}

}  // namespace tost
