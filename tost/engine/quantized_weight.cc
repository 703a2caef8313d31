#include "tost/engine/quantized_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tost/base/error.h"
#include "tost/engine/threads.h"

namespace tost {
namespace {

using kernels::kInt4Group;
using kernels::WeightType;

constexpr int64_t kRowsATask = 16;

// Rounds `value` to a mantissa with `bits` fewer bits; returns 0 for a value too small to divide
// by.
float shortened(float value, int bits) {
  if (value < 1e-30f) return 0;
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  word = (word + (1u << (bits - 1))) & ~((1u << bits) - 1);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// The scale of `count` weights for integers up to `most`; not finite if a weight is not.
float scale_of(const float* w, int64_t count, int most, int bits) {
  float top = 0, poison = 0;
  for (int64_t i = 0; i < count; ++i) {
    top = std::max(top, std::abs(w[i]));
    poison += w[i] * 0;
  }
  if (poison != 0 || std::isnan(poison)) return NAN;
  return shortened(top / static_cast<float>(most), bits);
}

int rounded(float w, float scale, int most) {
  if (scale == 0) return 0;
  return std::clamp(static_cast<int>(std::nearbyint(w / scale)), -most, most);
}

Array checked(const Array& weight) {
  const bool real =
      weight.dtype() == TorchDtype::kFloat32 || weight.dtype() == TorchDtype::kBFloat16;
  if (weight.shape().size() == 2 && real) return weight.as_float();
  fail_usage("Only float32 and bfloat16 matrices can be rounded to integers, found ", shown(weight),
             ".");
}

[[noreturn]] void fail_not_finite() {
  fail_data("Weights that are not finite cannot be rounded to integers.");
}

// Calls body(row) for every row, on all threads.
template <class Body>
void for_rows(int64_t rows, const Body& body) {
  parallel_tasks((rows + kRowsATask - 1) / kRowsATask, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(rows, end * kRowsATask);
    for (int64_t row = begin * kRowsATask; row < last; ++row) body(row);
  });
}

int value_of(const uint8_t* row, int64_t input) {
  return ((row[input / 2] >> (input % 2 * 4)) & 15) - 8;
}

}  // namespace

QuantizedWeight quantize_int8(const Array& weight) {
  const Array wide = checked(weight);
  const int64_t out = wide.size(0), in = wide.size(1);
  QuantizedWeight q{WeightType::kInt8, Array::empty({out, in}, TorchDtype::kInt8),
                    Array::empty({out}), in};
  const float* from = wide.data();
  auto* values = q.values.mutable_data<int8_t>();
  float* scales = q.scales.mutable_data();
  for_rows(out, [&](int64_t o) {
    const float* w = from + o * in;
    const float scale = scales[o] = scale_of(w, in, 127, 8);
    if (std::isnan(scale)) return;
    for (int64_t i = 0; i < in; ++i) {
      values[o * in + i] = static_cast<int8_t>(rounded(w[i], scale, 127));
    }
  });
  for (int64_t o = 0; o < out; ++o) {
    if (!std::isfinite(scales[o])) fail_not_finite();
  }
  return q;
}

QuantizedWeight quantize_int4(const Array& weight) {
  const Array wide = checked(weight);
  const int64_t out = wide.size(0), in = wide.size(1);
  const int64_t bytes = (in + 1) / 2, groups = (in + kInt4Group - 1) / kInt4Group;
  QuantizedWeight q{WeightType::kInt4, Array::empty({out, bytes}, TorchDtype::kUInt8),
                    Array::empty({out, groups}, TorchDtype::kBFloat16), in};
  const float* from = wide.data();
  auto* values = q.values.mutable_data<uint8_t>();
  auto* scales = q.scales.mutable_data<uint16_t>();
  std::memset(values, 0x88, size_t(out * bytes));
  for_rows(out, [&](int64_t o) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = g * kInt4Group, count = std::min(kInt4Group, in - first);
      const float* w = from + o * in + first;
      const float scale = scale_of(w, count, 7, 16);
      scales[o * groups + g] = to_bfloat16(scale);
      if (std::isnan(scale)) return;
      for (int64_t i = 0; i < count; ++i) {
        uint8_t& byte = values[o * bytes + (first + i) / 2];
        const auto value = static_cast<uint8_t>(rounded(w[i], scale, 7) + 8);
        byte = i % 2 == 0 ? uint8_t((byte & 0xF0) | value) : uint8_t((byte & 15) | value << 4);
      }
    }
  });
  for (int64_t i = 0; i < out * groups; ++i) {
    if (!std::isfinite(from_bfloat16(scales[i]))) fail_not_finite();
  }
  return q;
}

QuantizedWeight quantize(const Array& weight, WeightType type) {
  return type == WeightType::kInt4 ? quantize_int4(weight) : quantize_int8(weight);
}

Array dequantize(const QuantizedWeight& q) {
  const int64_t out = q.values.size(0), in = q.inputs;
  const bool four = q.type == WeightType::kInt4;
  const int64_t bytes = q.values.size(1), groups = four ? q.scales.size(1) : 1;
  Array result = Array::empty({out, in});
  float* w = result.mutable_data();
  for_rows(out, [&](int64_t o) {
    for (int64_t i = 0; i < in; ++i) {
      w[o * in + i] =
          four ? static_cast<float>(value_of(q.values.data<uint8_t>() + o * bytes, i)) *
                     from_bfloat16(q.scales.data<uint16_t>()[o * groups + i / kInt4Group])
               : static_cast<float>(q.values.data<int8_t>()[o * in + i]) * q.scales.data()[o];
    }
  });
  return result;
}

QuantizedWeight stored_integers(const Array& values, const Array& scales, int64_t out, int64_t in,
                                const std::string& name, const std::string& where) {
  const bool four = values.dtype() == TorchDtype::kUInt8;
  const Array::Shape sizes{out, four ? (in + 1) / 2 : in};
  Array::Shape scale_sizes{out};
  if (four) scale_sizes.push_back((in + kInt4Group - 1) / kInt4Group);
  const auto expect = [&](const Array& found, const std::string& tensor, TorchDtype type,
                          const Array::Shape& wanted) {
    if (found.dtype() == type && found.shape() == wanted) return;
    fail_data(where, " holds '", tensor, "' of type ", shown(found), " where ", shown(wanted),
              " are needed.");
  };
  expect(values, name, four ? TorchDtype::kUInt8 : TorchDtype::kInt8, sizes);
  expect(scales, name + ".scale", four ? TorchDtype::kBFloat16 : TorchDtype::kFloat32, scale_sizes);
  const Array wide = scales.as_float();
  const auto scale_range = std::pair(wide.data(), wide.data() + wide.numel());
  if (!std::all_of(scale_range.first, scale_range.second,
                   [](float x) { return std::isfinite(x) && x >= 0; })) {
    fail_data(where, " has a scale in '", name, ".scale' that is negative or not finite.");
  }
  const Array whole = values.contiguous();
  const auto* bytes = whole.data<uint8_t>();
  if (std::any_of(bytes, bytes + whole.numel(), [four](uint8_t byte) {
        return four ? (byte & 15) == 0 || byte < 16 : byte == 0x80;
      })) {
    fail_data(where, " has a value in '", name, "' outside ", four ? "-7 to 7." : "-127 to 127.");
  }
  const float most = std::numeric_limits<float>::max() / (four ? 7 : 127);
  if (std::any_of(scale_range.first, scale_range.second, [most](float x) { return x > most; })) {
    fail_data(where, " has a scale in '", name, ".scale' that is too large for its values.");
  }
  return {four ? WeightType::kInt4 : WeightType::kInt8, whole, scales.contiguous(), in};
}

QuantizedWeight step_rows(const QuantizedWeight& weight) {
  if (weight.type != WeightType::kInt4) return weight;
  const int64_t out = weight.values.size(0), in = weight.inputs;
  const int64_t from_bytes = weight.values.size(1), from_groups = weight.scales.size(1);
  const int64_t bytes = kernels::int4_row_bytes(in), groups = kernels::int4_groups(in);
  QuantizedWeight q{weight.type, Array::zeros({out, bytes}, TorchDtype::kUInt8),
                    Array::zeros({out, groups}, TorchDtype::kBFloat16), in};
  const auto* from = weight.values.data<uint8_t>();
  const auto* from_scales = weight.scales.data<uint16_t>();
  auto* to = q.values.mutable_data<uint8_t>();
  auto* to_scales = q.scales.mutable_data<uint16_t>();
  for_rows(out, [&](int64_t o) {
    std::copy_n(from_scales + o * from_groups, from_groups, to_scales + o * groups);
    for (int64_t i = 0; i < in; ++i) {
      const auto at = kernels::int4_position(i);
      to[o * bytes + at.byte] |= uint8_t((value_of(from + o * from_bytes, i) + 8) << at.shift);
    }
  });
  return q;
}

void read_int4_row(const Array& values, const Array& scales, int64_t inputs, int64_t index,
                   float* to) {
  const auto* from = values.data<uint8_t>() + index * values.size(1);
  const auto* scale = scales.data<uint16_t>() + index * scales.size(1);
  for (int64_t i = 0; i < inputs; ++i) {
    const auto at = kernels::int4_position(i);
    const int value = ((from[at.byte] >> at.shift) & 15) - 8;
    to[i] = static_cast<float>(value) * from_bfloat16(scale[i / kInt4Group]);
  }
}

}  // namespace tost
