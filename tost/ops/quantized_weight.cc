#include "tost/ops/quantized_weight.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tost/base/error.h"
#include "tost/kernels/products/few_rows.h"

namespace tost {
namespace {

using kernels::kInt4Group;
using kernels::WeightType;

constexpr int64_t kRowsATask = 16;

// Rounds `value` to so many fewer bits of mantissa; 0 if it is too small to divide by.
float shortened(float value, int bits) {
  if (value < 1e-30f) return 0;
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  word = (word + (1u << (bits - 1))) & ~((1u << bits) - 1);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// The scale of `count` weights for integers up to `most`; NaN or infinite if a weight is.
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

at::Tensor checked(const at::Tensor& weight) {
  if (weight.dim() != 2 || !weight.is_cpu() ||
      (weight.scalar_type() != at::kFloat && weight.scalar_type() != at::kBFloat16)) {
    fail_usage("Only float32 and bfloat16 matrices on the CPU can be rounded to integers, ",
               "found ", weight.scalar_type(), " ", weight.sizes(), ".");
  }
  return weight.detach().to(at::kFloat).contiguous();
}

void check_finite(const at::Tensor& scales) {
  const auto wide = scales.to(at::kFloat);
  if (wide.isfinite().all().item<bool>()) return;
  fail_data("Weights that are not finite cannot be rounded to integers.");
}

// Calls body(row) for every row, on all threads.
template <class Body>
void for_rows(int64_t rows, const Body& body) {
  at::parallel_for(0, rows, kRowsATask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

at::Tensor dequantized_int4(const QuantizedWeight& q) {
  const int64_t out = q.values.size(0), in = q.inputs;
  const int64_t bytes = q.values.size(1), groups = q.scales.size(1);
  auto result = at::empty({out, in}, q.values.options().dtype(at::kFloat));
  const auto* values = q.values.const_data_ptr<uint8_t>();
  const auto* scales = q.scales.const_data_ptr<at::BFloat16>();
  auto* w = result.mutable_data_ptr<float>();
  for_rows(out, [&](int64_t o) {
    for (int64_t i = 0; i < in; ++i) {
      const int value = ((values[o * bytes + i / 2] >> (i % 2 * 4)) & 15) - 8;
      w[o * in + i] =
          static_cast<float>(value) * static_cast<float>(scales[o * groups + i / kInt4Group]);
    }
  });
  return result;
}

}  // namespace

QuantizedWeight quantize_int8(const at::Tensor& weight) {
  const auto wide = checked(weight);
  const int64_t out = wide.size(0), in = wide.size(1);
  QuantizedWeight q{WeightType::kInt8, at::empty({out, in}, wide.options().dtype(at::kChar)),
                    at::empty({out}, wide.options()), in};
  const auto* from = wide.const_data_ptr<float>();
  auto* values = q.values.mutable_data_ptr<int8_t>();
  auto* scales = q.scales.mutable_data_ptr<float>();
  for_rows(out, [&](int64_t o) {
    const float* w = from + o * in;
    const float scale = scales[o] = scale_of(w, in, 127, 8);
    if (std::isnan(scale)) return;
    for (int64_t i = 0; i < in; ++i) {
      values[o * in + i] = static_cast<int8_t>(rounded(w[i], scale, 127));
    }
  });
  check_finite(q.scales);
  return q;
}

QuantizedWeight quantize_int4(const at::Tensor& weight) {
  const auto wide = checked(weight);
  const int64_t out = wide.size(0), in = wide.size(1);
  const int64_t bytes = (in + 1) / 2, groups = (in + kInt4Group - 1) / kInt4Group;
  QuantizedWeight q{WeightType::kInt4,
                    at::full({out, bytes}, 0x88, wide.options().dtype(at::kByte)),
                    at::empty({out, groups}, wide.options().dtype(at::kBFloat16)), in};
  const auto* from = wide.const_data_ptr<float>();
  auto* values = q.values.mutable_data_ptr<uint8_t>();
  auto* scales = q.scales.mutable_data_ptr<at::BFloat16>();
  for_rows(out, [&](int64_t o) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = g * kInt4Group, count = std::min(kInt4Group, in - first);
      const float* w = from + o * in + first;
      const float scale = scale_of(w, count, 7, 16);
      scales[o * groups + g] = scale;
      if (std::isnan(scale)) return;
      for (int64_t i = 0; i < count; ++i) {
        uint8_t& byte = values[o * bytes + (first + i) / 2];
        const auto value = static_cast<uint8_t>(rounded(w[i], scale, 7) + 8);
        byte = i % 2 == 0 ? uint8_t((byte & 0xF0) | value) : uint8_t((byte & 15) | value << 4);
      }
    }
  });
  check_finite(q.scales);
  return q;
}

QuantizedWeight quantize(const at::Tensor& weight, WeightType type) {
  return type == WeightType::kInt4 ? quantize_int4(weight) : quantize_int8(weight);
}

at::Tensor dequantize(const QuantizedWeight& weight) {
  if (weight.type == WeightType::kInt4) return dequantized_int4(weight);
  return weight.values.to(at::kFloat).mul(weight.scales.unsqueeze(1));
}

QuantizedWeight step_rows(const QuantizedWeight& weight) {
  if (weight.type != WeightType::kInt4) return weight;
  const int64_t out = weight.values.size(0), in = weight.inputs;
  const int64_t from_bytes = weight.values.size(1), from_groups = weight.scales.size(1);
  const int64_t bytes = kernels::int4_row_bytes(in), groups = kernels::int4_groups(in);
  QuantizedWeight q{weight.type, at::zeros({out, bytes}, weight.values.options()),
                    at::zeros({out, groups}, weight.scales.options()), in};
  q.scales.narrow(1, 0, from_groups).copy_(weight.scales);
  const auto* from = weight.values.const_data_ptr<uint8_t>();
  auto* to = q.values.mutable_data_ptr<uint8_t>();
  for_rows(out, [&](int64_t o) {
    for (int64_t i = 0; i < in; ++i) {
      const int value = (from[o * from_bytes + i / 2] >> (i % 2 * 4)) & 15;
      const auto at = kernels::int4_position(i);
      to[o * bytes + at.byte] |= uint8_t(value << at.shift);
    }
  });
  return q;
}

void read_step_row(WeightType type, const at::Tensor& values, const at::Tensor& scales,
                   int64_t inputs, int64_t index, float* to) {
  if (type != WeightType::kInt4) {
    const auto* from = values.const_data_ptr<int8_t>() + index * inputs;
    const float scale = scales.const_data_ptr<float>()[index];
    for (int64_t i = 0; i < inputs; ++i) to[i] = static_cast<float>(from[i]) * scale;
    return;
  }
  const auto* from = values.const_data_ptr<uint8_t>() + index * values.size(1);
  const auto* scale = scales.const_data_ptr<at::BFloat16>() + index * scales.size(1);
  for (int64_t i = 0; i < inputs; ++i) {
    const auto at = kernels::int4_position(i);
    const int value = ((from[at.byte] >> at.shift) & 15) - 8;
    to[i] = static_cast<float>(value) * static_cast<float>(scale[i / kInt4Group]);
  }
}

}  // namespace tost
