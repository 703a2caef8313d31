#include "tost/io/torch_dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tost/base/error.h"

namespace tost {
namespace {

template <class T>
double number(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return double(value);
}

// A float with `mantissa` bits of fraction in the size of Bits: the half of IEEE and its 8-bit kin.
// Those whose names end in fn and fnuz have no infinities and one NaN, of which -0 is that of fnuz.
enum class Specials { kIeee, kFn, kFnuz };
template <class Bits, int mantissa, Specials specials>
double small_float(const char* bytes) {
  constexpr int kBits = 8 * sizeof(Bits), kFull = (1 << mantissa) - 1;
  constexpr int kTop = (1 << (kBits - 1 - mantissa)) - 1;
  constexpr bool kIeee = specials == Specials::kIeee, kFnuz = specials == Specials::kFnuz;
  const int bits = int(number<Bits>(bytes)), exponent = bits >> mantissa & kTop;
  const int fraction = bits & kFull, sign = bits >> (kBits - 1);
  const bool top = exponent == kTop && !kFnuz;
  if (kFnuz ? bits == 1 << (kBits - 1) : top && fraction > (kIeee ? 0 : kFull - 1)) return NAN;
  const double size = top && kIeee
                          ? INFINITY
                          : std::ldexp(fraction + (exponent > 0 ? kFull + 1 : 0),
                                       std::max(exponent, 1) - kTop / 2 - kFnuz - mantissa);
  return sign != 0 ? -size : size;
}

double power_of_two(const char* bytes) {
  const int bits = int(number<uint8_t>(bytes));
  return bits == 255 ? NAN : std::ldexp(1.0, bits - 127);
}

using enum TorchDtype;
using enum Specials;
constexpr TorchDtypeInfo kDtypes[] = {
    {kFloat64, "float64", "double", 8, "DoubleStorage", "F64", number<double>},
    {kFloat32, "float32", "float", 4, "FloatStorage", "F32", number<float>},
    {kFloat16, "float16", "half", 2, "HalfStorage", "F16", small_float<uint16_t, 10, kIeee>},
    {kBFloat16, "bfloat16", "", 2, "BFloat16Storage", "BF16", small_float<uint16_t, 7, kIeee>},
    {kInt64, "int64", "long", 8, "LongStorage", "I64", number<int64_t>},
    {kInt32, "int32", "int", 4, "IntStorage", "I32", number<int32_t>},
    {kInt16, "int16", "short", 2, "ShortStorage", "I16", number<int16_t>},
    {kInt8, "int8", "", 1, "CharStorage", "I8", number<int8_t>},
    {kUInt64, "uint64", "", 8, "", "U64", number<uint64_t>},
    {kUInt32, "uint32", "", 4, "", "U32", number<uint32_t>},
    {kUInt16, "uint16", "", 2, "", "U16", number<uint16_t>},
    {kUInt8, "uint8", "", 1, "ByteStorage", "U8", number<uint8_t>},
    {kBool, "bool", "", 1, "BoolStorage", "BOOL", number<uint8_t>},
    {kFloat8E5m2, "float8_e5m2", "", 1, "", "F8_E5M2", small_float<uint8_t, 2, kIeee>},
    {kFloat8E4m3fn, "float8_e4m3fn", "", 1, "", "F8_E4M3", small_float<uint8_t, 3, kFn>},
    {kFloat8E5m2fnuz, "float8_e5m2fnuz", "", 1, "", "", small_float<uint8_t, 2, kFnuz>},
    {kFloat8E4m3fnuz, "float8_e4m3fnuz", "", 1, "", "", small_float<uint8_t, 3, kFnuz>},
    {kFloat8E8m0fnu, "float8_e8m0fnu", "", 1, "", "", power_of_two},
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

void check_booleans(std::string_view bytes, const std::string& where) {
  for (const unsigned char byte : bytes) {
    if (byte > 1) {
      fail_data(where, " holds the byte ", int{byte}, " in a bool; only 0 and 1 are allowed.");
    }
  }
}

}  // namespace tost
