// Shared by the tests of row operations: arrays of rows with marks after their end, and every
// instruction set.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tost/base/random.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/tssa.h"

namespace tost::kernels {

inline float from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
inline uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Rows of float32 or bfloat16 with a stride beyond their width and marks after their end.
class RowsOf {
 public:
  static constexpr float kMark = -77;

  RowsOf(DType dtype, int64_t rows, int64_t width)
      : dtype(dtype),
        width(width),
        stride(width + 3),
        wide_(static_cast<size_t>(rows * stride + 1), kMark),
        half_(wide_.size(), to_bf16(kMark)) {}

  void set(int64_t r, int64_t c, float value) {
    wide_[index(r, c)] = value;
    half_[index(r, c)] = to_bf16(value);
  }
  float get(int64_t r, int64_t c) const {
    return dtype == DType::kBfloat16 ? from_bf16(half_[index(r, c)]) : wide_[index(r, c)];
  }
  void* data() {
    return dtype == DType::kBfloat16 ? static_cast<void*>(half_.data()) : wide_.data();
  }
  void expect_marks(int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = width; c < stride; ++c) ASSERT_EQ(get(r, c), kMark) << r << ", " << c;
    }
  }

  const DType dtype;
  const int64_t width, stride;

 private:
  size_t index(int64_t r, int64_t c) const { return static_cast<size_t>(r * stride + c); }

  std::vector<float> wide_;
  std::vector<uint16_t> half_;
};

inline void fill(RowsOf& rows, int64_t count, float scale, float shift, uint64_t seed) {
  Random random(seed);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < rows.width; ++c) {
      rows.set(r, c, scale * static_cast<float>(random.normal()) + shift);
    }
  }
}

inline std::vector<float> numbers(int64_t count, float scale, float shift, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = scale * static_cast<float>(random.normal()) + shift;
  return values;
}

// Every instruction set, the best one again afterwards.
class RowTest : public testing::Test {
 protected:
  template <class Body>
  void on_every_isa(const Body& body) {
    for (const auto& isa : supported_isas()) {
      SCOPED_TRACE(isa);
      force_isa(isa);
      body();
    }
  }
  void TearDown() override { force_isa("auto"); }
};

}  // namespace tost::kernels
