#include "tost/io/torch_dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

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
    {kComplex128, "complex128", "cdouble", 16, "ComplexDoubleStorage", ""},
    {kComplex64, "complex64", "cfloat", 8, "ComplexFloatStorage", ""},
    {kComplex32, "complex32", "chalf", 4, "", ""},
    {kFloat8E5m2, "float8_e5m2", "", 1, "", "F8_E5M2"},
    {kFloat8E4m3fn, "float8_e4m3fn", "", 1, "", "F8_E4M3"},
    {kFloat8E5m2fnuz, "float8_e5m2fnuz", "", 1, "", ""},
    {kFloat8E4m3fnuz, "float8_e4m3fnuz", "", 1, "", ""},
    {kFloat8E8m0fnu, "float8_e8m0fnu", "", 1, "", ""},
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
  // Bytes without a type; the tensors on it say theirs.
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

namespace {

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Floats of `exponent` and `mantissa` bits with infinities and NaN as IEEE 754 has them.
double small_float(uint32_t bits, int exponent, int mantissa) {
  const int bias = (1 << (exponent - 1)) - 1;
  const auto fraction = static_cast<double>(bits & ((1u << mantissa) - 1));
  const int power = static_cast<int>(bits >> mantissa) & ((1 << exponent) - 1);
  const double sign = (bits >> (exponent + mantissa)) & 1 ? -1.0 : 1.0;
  if (power == (1 << exponent) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (power == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), power - bias - mantissa);
}

// Floats without infinities. `nan` is the one pattern (sign aside where `signed_nan`) for NaN.
double finite_float(uint32_t bits, int mantissa, int bias, bool unsigned_zero) {
  const uint32_t magnitude = bits & 0x7f;
  if (unsigned_zero ? bits == 0x80 : magnitude == 0x7f) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double sign = (bits & 0x80) != 0 ? -1.0 : 1.0;
  const auto fraction = static_cast<double>(magnitude & ((1u << mantissa) - 1));
  const int power = static_cast<int>(magnitude >> mantissa);
  if (power == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), power - bias - mantissa);
}

double read_byte(uint8_t bits, TorchDtype dtype) {
  switch (dtype) {
    case TorchDtype::kFloat8E5m2:
      return small_float(bits, 5, 2);
    case TorchDtype::kFloat8E4m3fn:
      return finite_float(bits, 3, 7, false);
    case TorchDtype::kFloat8E4m3fnuz:
      return finite_float(bits, 3, 8, true);
    case TorchDtype::kFloat8E5m2fnuz:
      return finite_float(bits, 2, 16, true);
    case TorchDtype::kFloat8E8m0fnu:
      return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - 127);
    case TorchDtype::kInt8:
      return static_cast<int8_t>(bits);
    default:
      return bits;
  }
}

}  // namespace

bool is_real(TorchDtype dtype) {
  switch (dtype) {
    case TorchDtype::kComplex128:
    case TorchDtype::kComplex64:
    case TorchDtype::kComplex32:
    case TorchDtype::kFloat4E2m1fnX2:
    case TorchDtype::kQInt8:
    case TorchDtype::kQUInt8:
    case TorchDtype::kQInt32:
    case TorchDtype::kQUInt4x2:
    case TorchDtype::kQUInt2x4:
    case TorchDtype::kBits8:
    case TorchDtype::kBits16:
      return false;
    default:
      return true;
  }
}

double read_element(const char* at, TorchDtype dtype) {
  switch (dtype) {
    case TorchDtype::kFloat64:
      return load<double>(at);
    case TorchDtype::kFloat32:
      return load<float>(at);
    case TorchDtype::kFloat16:
      return small_float(load<uint16_t>(at), 5, 10);
    case TorchDtype::kBFloat16:
      return std::bit_cast<float>(uint32_t{load<uint16_t>(at)} << 16);
    case TorchDtype::kInt64:
      return static_cast<double>(load<int64_t>(at));
    case TorchDtype::kInt32:
      return load<int32_t>(at);
    case TorchDtype::kInt16:
      return load<int16_t>(at);
    case TorchDtype::kUInt64:
      return static_cast<double>(load<uint64_t>(at));
    case TorchDtype::kUInt32:
      return load<uint32_t>(at);
    case TorchDtype::kUInt16:
      return load<uint16_t>(at);
    default:
      return read_byte(load<uint8_t>(at), dtype);
  }
}

}  // namespace tost
