#include "tost/engine/quantized_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/random.h"

namespace tost {
namespace {

// Rows of very different size, zeros among them.
Array uneven(int64_t out, int64_t in, uint64_t seed) {
  Array w = Array::empty({out, in});
  Random random(seed);
  for (int64_t o = 0; o < out; ++o) {
    const double size = o == out / 2 ? 0 : std::pow(10, -12 + 21.0 * double(o) / double(out));
    for (int64_t i = 0; i < in; ++i) {
      w.mutable_data()[o * in + i] = float(size * (2 * random.uniform() - 1));
    }
  }
  return w;
}

bool same(const Array& a, const Array& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data<char>(), b.data<char>(), size_t(a.bytes())) == 0;
}

float largest(const float* w, int64_t count) {
  float top = 0;
  for (int64_t i = 0; i < count; ++i) top = std::max(top, std::abs(w[i]));
  return top;
}

TEST(QuantizedWeight, RoundsToTheNearestValueOfItsScale) {
  for (const int64_t in : {1, 31, 32, 33, 97, 256}) {
    const Array w = uneven(23, in, 3);
    const auto eight = quantize_int8(w), four = quantize_int4(w);
    const Array wide8 = dequantize(eight), wide4 = dequantize(four);
    for (int64_t o = 0; o < 23; ++o) {
      const float* row = w.data() + o * in;
      for (int64_t i = 0; i < in; ++i) {
        const int64_t first = i / 32 * 32, count = std::min<int64_t>(32, in - first);
        EXPECT_LE(std::abs(wide8.data()[o * in + i] - row[i]), largest(row, in) / 127 * 0.502f);
        EXPECT_LE(std::abs(wide4.data()[o * in + i] - row[i]),
                  largest(row + first, count) / 7 * 0.53f);
        EXPECT_NE(eight.values.data<int8_t>()[o * in + i], -128);
      }
    }
  }
}

TEST(QuantizedWeight, RoundingAgainKeepsEveryBit) {
  const Array w = uneven(2000, 65, 4);
  for (const auto type : {kernels::WeightType::kInt8, kernels::WeightType::kInt4}) {
    const auto once = quantize(w, type), twice = quantize(dequantize(once), type);
    EXPECT_TRUE(same(once.values, twice.values));
    EXPECT_TRUE(same(once.scales, twice.scales));
  }
}

TEST(QuantizedWeight, RowsOfFourBitsHoldTheSameValues) {
  for (const int64_t in : {1, 32, 100, 768}) {
    const auto plain = quantize_int4(uneven(3, in, 5));
    const auto rows = step_rows(plain);
    ASSERT_EQ(rows.values.size(1), kernels::int4_row_bytes(in));
    const Array wanted = dequantize(plain);
    std::vector<float> row(static_cast<size_t>(in));
    for (int64_t o = 0; o < 3; ++o) {
      read_int4_row(rows.values, rows.scales, in, o, row.data());
      for (int64_t i = 0; i < in; ++i) ASSERT_EQ(row[size_t(i)], wanted.data()[o * in + i]) << in;
    }
  }
}

TEST(QuantizedWeight, RefusesWhatCannotBeRounded) {
  for (const float value : {float(NAN), std::numeric_limits<float>::infinity()}) {
    Array w = uneven(4, 40, 6);
    w.mutable_data()[2 * 40 + 35] = value;
    EXPECT_THROW(quantize_int8(w), Error);
    EXPECT_THROW(quantize_int4(w), Error);
  }
  EXPECT_THROW(quantize_int8(Array::zeros({4})), Error);
  EXPECT_THROW(quantize_int4(Array::zeros({4, 4}, TorchDtype::kInt64)), Error);
}

TEST(QuantizedWeight, TakesOnlyStoredIntegersThatAWeightHas) {
  const auto read = [](const QuantizedWeight& q) {
    return stored_integers(q.values, q.scales, 4, 40, "w", "'f'");
  };
  for (const auto type : {kernels::WeightType::kInt8, kernels::WeightType::kInt4}) {
    const auto good = quantize(uneven(4, 40, 7), type);
    EXPECT_TRUE(same(dequantize(read(good)), dequantize(good)));
    auto bad = good;
    bad.values = good.values.clone();
    bad.values.mutable_data<uint8_t>()[5] = type == kernels::WeightType::kInt8 ? 0x80 : 0x08;
    EXPECT_THROW(read(bad), Error);
    bad = good;
    bad.scales = Array::zeros({3}, good.scales.dtype());
    EXPECT_THROW(read(bad), Error);
    bad.scales = good.scales.clone();
    bad.scales.mutable_data<uint8_t>()[type == kernels::WeightType::kInt8 ? 3 : 1] = 0xBF;  // < 0
    EXPECT_THROW(read(bad), Error);
  }
}

}  // namespace
}  // namespace tost
