#include "tost/kernels/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "tost/kernels/row_test_util.h"

namespace tost::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<double> normed(const RowsOf& x, int64_t r, const std::vector<float>& weight,
                           const float* bias, double eps) {
  const auto width = static_cast<double>(x.width);
  double mean = 0, variance = 0;
  for (int64_t c = 0; c < x.width; ++c) mean += x.get(r, c) / width;
  for (int64_t c = 0; c < x.width; ++c) variance += std::pow(x.get(r, c) - mean, 2) / width;
  std::vector<double> y;
  for (int64_t c = 0; c < x.width; ++c) {
    const auto i = static_cast<size_t>(c);
    y.push_back((x.get(r, c) - mean) / std::sqrt(variance + eps) * weight[i] +
                (bias != nullptr ? bias[i] : 0));
  }
  return y;
}

using RowOps = RowTest;

constexpr int64_t kWidths[] = {1, 2, 7, 16, 17, 48, 64, 100, 384};

TEST_F(RowOps, NormIsThatOfFloat64) {
  on_every_isa([] {
    for (const int64_t width : kWidths) {
      for (const DType in : {DType::kFloat32, DType::kBfloat16}) {
        for (const DType out : {DType::kFloat32, DType::kBfloat16}) {
          const int64_t rows = width == 7 ? 0 : 3;
          RowsOf x(in, rows, width), y(out, rows, width);
          fill(x, rows, 2, 5, 1);
          const auto weight = numbers(width, 1, 1, 2), bias = numbers(width, 1, 0, 3);
          const float* const bias_or_null = width % 2 == 0 ? bias.data() : nullptr;
          norm_rows({rows, width, x.data(), x.stride, in, weight.data(), bias_or_null, 1e-6f,
                     y.data(), y.stride,
                     out == DType::kFloat32 ? RowType::kFloat32 : RowType::kBfloat16});
          for (int64_t r = 0; r < rows; ++r) {
            const auto expected = normed(x, r, weight, bias_or_null, 1e-6);
            for (int64_t c = 0; c < width; ++c) {
              const double e = expected[static_cast<size_t>(c)];
              const double allowed = out == DType::kFloat32 ? 1e-5 : 1e-5 + std::abs(e) / 256;
              ASSERT_NEAR(y.get(r, c), e, allowed) << width << ": " << r << ", " << c;
            }
          }
          y.expect_marks(rows);
        }
      }
    }
  });
}

TEST_F(RowOps, NormTakesHugeAndTinyValuesAndItsOwnMemory) {
  on_every_isa([] {
    for (const float scale : {1e15f, 1e-15f}) {
      constexpr int64_t kWidth = 40;
      RowsOf x(DType::kFloat32, 2, kWidth);
      fill(x, 2, scale, 0, 4);
      const std::vector<float> weight(kWidth, 1.0f);
      const auto first = normed(x, 0, weight, nullptr, 1e-30),
                 second = normed(x, 1, weight, nullptr, 1e-30);
      norm_rows({2, kWidth, x.data(), x.stride, DType::kFloat32, weight.data(), nullptr, 1e-30f,
                 x.data(), x.stride, RowType::kFloat32});
      for (int64_t c = 0; c < kWidth; ++c) {
        ASSERT_NEAR(x.get(0, c), first[static_cast<size_t>(c)], 1e-5);
        ASSERT_NEAR(x.get(1, c), second[static_cast<size_t>(c)], 1e-5);
      }
    }
  });
}

TEST_F(RowOps, NormAddsTheShiftFirst) {
  on_every_isa([] {
    for (const int64_t width : kWidths) {
      RowsOf x(DType::kFloat32, 2, width), y(DType::kFloat32, 2, width);
      fill(x, 2, 2, 0, 20);
      const auto weight = numbers(width, 1, 1, 21), shift = numbers(width, 3, 0, 22);
      RowsOf moved = x;
      for (int64_t r = 0; r < 2; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          moved.set(r, c, x.get(r, c) + shift[static_cast<size_t>(c)]);
        }
      }
      NormRowsArgs a{2,       width, x.data(), x.stride, DType::kFloat32, weight.data(),
                     nullptr, 1e-6f, y.data(), y.stride};
      a.shift = shift.data();
      RowsOf separate(DType::kFloat32, 2, width);
      const RowsOf before = x;
      const bool in_place = width % 2 == 0;
      a.shifted = static_cast<float*>(in_place ? x.data() : separate.data());
      norm_rows(a);
      for (int64_t r = 0; r < 2; ++r) {
        const auto expected = normed(moved, r, weight, nullptr, 1e-6);
        for (int64_t c = 0; c < width; ++c) {
          ASSERT_EQ((in_place ? x : separate).get(r, c), moved.get(r, c));
          ASSERT_EQ(x.get(r, c), (in_place ? moved : before).get(r, c));
          ASSERT_NEAR(y.get(r, c), expected[static_cast<size_t>(c)], 1e-5);
        }
      }
      x.expect_marks(2);
      separate.expect_marks(2);
    }
  });
}

// What quantised bytes stand for, and that they use the whole range.
void expect_quantized(const std::vector<double>& expected, const uint8_t* bytes, float scale,
                      int32_t zero) {
  double low = 0, high = 0;
  for (const double e : expected) low = std::min(low, e), high = std::max(high, e);
  EXPECT_NEAR(scale, (high - low) / 255, 1e-5 * (high - low));
  EXPECT_GE(zero, 0);
  EXPECT_LE(zero, 255);
  for (size_t c = 0; c < expected.size(); ++c) {
    // Half a step, and what rounding the zero shifts at an end of the range.
    ASSERT_NEAR(scale * static_cast<float>(bytes[c] - zero), expected[c], 1.01 * scale) << c;
  }
}

TEST_F(RowOps, QuantizedNormEncodesTheNorm) {
  on_every_isa([] {
    for (const int64_t width : kWidths) {
      RowsOf x(DType::kFloat32, 2, width);
      fill(x, 2, 3, -1, 5);
      const auto weight = numbers(width, 1, 0, 6), bias = numbers(width, 1, 0, 7);
      std::vector<uint8_t> y(static_cast<size_t>(2 * width + 5), 200);
      float scale[2];
      int32_t zero[2];
      norm_rows({2, width, x.data(), x.stride, DType::kFloat32, weight.data(), bias.data(), 1e-6f,
                 y.data(), width + 2, RowType::kUint8, scale, zero});
      for (int64_t r = 0; r < 2; ++r) {
        expect_quantized(normed(x, r, weight, bias.data(), 1e-6), y.data() + r * (width + 2),
                         scale[r], zero[r]);
      }
      EXPECT_EQ(y[static_cast<size_t>(width)], 200);
      EXPECT_EQ(y.back(), 200);
    }
  });
}

TEST_F(RowOps, QuantizedRowsEncodeTheirValues) {
  on_every_isa([] {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (const int64_t width : kWidths) {
        for (const float shift : {0.0f, 50.0f, -50.0f}) {
          RowsOf x(dtype, 1, width);
          fill(x, 1, 4, shift, 8);
          std::vector<uint8_t> y(static_cast<size_t>(width));
          float scale;
          int32_t zero;
          quantize_rows({1, width, x.data(), x.stride, dtype, y.data(), width, &scale, &zero});
          std::vector<double> expected;
          for (int64_t c = 0; c < width; ++c) expected.push_back(x.get(0, c));
          expect_quantized(expected, y.data(), scale, zero);
        }
      }
    }
  });
}

TEST_F(RowOps, QuantizingKeepsZerosAndMarksBrokenRows) {
  on_every_isa([] {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      constexpr int64_t kWidth = 67, kRows = 7;
      RowsOf x(dtype, kRows, kWidth);
      fill(x, kRows, 1, 0, 9);
      for (int64_t c = 0; c < kWidth; ++c) x.set(0, c, c % 2 == 0 ? 0.0f : -0.0f);
      x.set(1, 66, kNan);
      x.set(2, 3, -kInf);
      for (int64_t c = 0; c < kWidth; ++c) x.set(3, c, 1e-40f);
      x.set(4, 7, 0);
      x.set(5, 20, -kNan);
      x.set(6, 0, kInf);
      std::vector<uint8_t> y(kRows * kWidth);
      float scale[kRows];
      int32_t zero[kRows];
      quantize_rows({kRows, kWidth, x.data(), x.stride, dtype, y.data(), kWidth, scale, zero});
      EXPECT_EQ(scale[0], 0);
      EXPECT_EQ(zero[0], 0);
      for (const int64_t r : {1, 2, 5, 6}) EXPECT_TRUE(std::isnan(scale[r])) << r;
      for (const int32_t z : zero) EXPECT_TRUE(z >= 0 && z <= 255) << z;
      EXPECT_EQ(scale[3], 0) << "no finite inverse";
      EXPECT_EQ(y[4 * kWidth + 7], zero[4]) << "zero is exact";
    }
  });
}

TEST_F(RowOps, ARowDoesNotDependOnItsNeighbours) {
  on_every_isa([] {
    constexpr int64_t kWidth = 50, kRows = 9;
    RowsOf x(DType::kFloat32, kRows, kWidth);
    fill(x, kRows, 2, 1, 11);
    const auto weight = numbers(kWidth, 1, 0, 12);
    const auto norm = [&](int64_t first, int64_t count, std::vector<uint8_t>& y) {
      std::vector<float> scale(size_t(count), 0);
      std::vector<int32_t> zero(size_t(count), 0);
      norm_rows({count, kWidth, static_cast<float*>(x.data()) + first * x.stride, x.stride,
                 DType::kFloat32, weight.data(), nullptr, 1e-6f, y.data() + first * kWidth, kWidth,
                 RowType::kUint8, scale.data(), zero.data()});
    };
    std::vector<uint8_t> together(kRows * kWidth), single(kRows * kWidth);
    norm(0, kRows, together);
    for (int64_t r = 0; r < kRows; ++r) norm(r, 1, single);
    EXPECT_EQ(together, single);
  });
}

double gelu(double x, Activation activation) {
  if (activation == Activation::kGelu) return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  return x * 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST_F(RowOps, GeluStaysBelowItsPromisedErrors) {
  std::vector<float> xs;
  for (int i = -90000; i <= 90000; i += 7) xs.push_back(static_cast<float>(i) * 1e-4f);
  for (const float x : {0.0f, 1e-30f, -1e-30f, 1e4f, -1e4f, 1e30f, -1e30f}) xs.push_back(x);
  const auto n = static_cast<int64_t>(xs.size());
  on_every_isa([&] {
    for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
      std::vector<float> fine(xs.size());
      std::vector<uint16_t> coarse(xs.size());
      FinishRowsArgs a{.rows = 1, .columns = n, .sums = xs.data(), .sums_stride = n};
      a.activation = activation;
      a.out = fine.data();
      finish_rows(a);
      a.out = coarse.data();
      a.out_dtype = DType::kBfloat16;
      finish_rows(a);
      for (size_t i = 0; i < xs.size(); ++i) {
        const double e = gelu(xs[i], activation);
        ASSERT_NEAR(fine[i], e, 1.2e-6 + 3e-7 * std::abs(e)) << xs[i];
        const double unit = std::exp2(std::floor(std::log2(std::abs(e) + 1e-300)) - 7);
        ASSERT_NEAR(from_bf16(coarse[i]), e, std::max(1.5 * unit, 1e-4 + 0.5 * unit)) << xs[i];
      }
      EXPECT_EQ(fine[xs.size() - 1], 0) << "far below nothing is left";
      EXPECT_EQ(from_bf16(coarse[xs.size() - 1]), 0);
    }
  });
}

TEST_F(RowOps, GeluOfIntegersStaysBelowItsBound) {
  constexpr int64_t kFrom = -9000, kCount = 18001;
  std::vector<int32_t> sums;
  for (int64_t i = 0; i < kCount; ++i) sums.push_back(static_cast<int32_t>(kFrom + i));
  sums.insert(sums.end(), {-1000000000, 1000000000});
  const auto n = static_cast<int64_t>(sums.size());
  const std::vector<float> column_scale(sums.size(), 1e-3f);
  const std::vector<int32_t> column_sum(sums.size(), 0);
  const float row_scale = 1;
  const int32_t row_zero = 0;
  on_every_isa([&] {
    for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
      std::vector<uint16_t> out(sums.size());
      FinishRowsArgs a{.rows = 1, .columns = n, .sums = sums.data(), .sums_stride = n};
      a.row_scale = &row_scale;
      a.row_zero = &row_zero;
      a.column_scale = column_scale.data();
      a.column_sum = column_sum.data();
      a.activation = activation;
      a.out = out.data();
      a.out_dtype = DType::kBfloat16;
      finish_rows(a);
      for (size_t i = 0; i < sums.size(); ++i) {
        const double e = gelu(sums[i] * 1e-3, activation);
        ASSERT_NEAR(from_bf16(out[i]), e, 1.2e-3 + std::abs(e) / 256) << sums[i];
      }
      EXPECT_EQ(from_bf16(out[sums.size() - 2]), 0) << "far below nothing is left";
    }
  });
}

TEST_F(RowOps, FinishingPassesNanOn) {
  on_every_isa([] {
    const float sums[4] = {kNan, kInf, 1, 2};
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (const auto activation : {Activation::kNone, Activation::kGelu, Activation::kGeluTanh}) {
        RowsOf out(dtype, 1, 4);
        FinishRowsArgs a{.rows = 1, .columns = 4, .sums = sums, .sums_stride = 4};
        a.activation = activation;
        a.out = out.data();
        a.out_stride = out.stride;
        a.out_dtype = dtype;
        finish_rows(a);
        EXPECT_TRUE(std::isnan(out.get(0, 0)));
        EXPECT_EQ(out.get(0, 1), kInf);
        EXPECT_NEAR(out.get(0, 3), activation == Activation::kNone ? 2 : 1.9545, 1e-2);
      }
    }
  });
}

constexpr int64_t kColumns[] = {1, 15, 16, 17, 64, 65, 100};

TEST_F(RowOps, FinishingAddsBiasAndResidual) {
  on_every_isa([] {
    for (const int64_t columns : kColumns) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        for (const bool add : {false, true}) {
          constexpr int64_t kRows = 3;
          RowsOf sums(DType::kFloat32, kRows, columns), out(dtype, kRows, columns);
          fill(sums, kRows, 1, 0, 10);
          fill(out, kRows, 1, 0, 11);
          const auto bias = numbers(columns, 1, 0, 12), gamma = numbers(columns, 1, 0, 13);
          const RowsOf before = out;
          FinishRowsArgs a{
              .rows = kRows, .columns = columns, .sums = sums.data(), .sums_stride = sums.stride};
          a.bias = columns == 17 ? nullptr : bias.data();
          a.add = add;
          a.gamma = columns == 16 ? nullptr : gamma.data();
          a.out = out.data();
          a.out_stride = out.stride;
          a.out_dtype = dtype;
          finish_rows(a);
          for (int64_t r = 0; r < kRows; ++r) {
            for (int64_t c = 0; c < columns; ++c) {
              const auto i = static_cast<size_t>(c);
              double e = double(sums.get(r, c)) + (a.bias != nullptr ? bias[i] : 0);
              if (add) e = before.get(r, c) + e * (a.gamma != nullptr ? gamma[i] : 1);
              const double allowed = dtype == DType::kFloat32 ? 1e-6 : 1e-6 + std::abs(e) / 256;
              ASSERT_NEAR(out.get(r, c), e, allowed) << columns << ": " << r << ", " << c;
            }
          }
          out.expect_marks(kRows);
        }
      }
    }
  });
}

TEST_F(RowOps, FinishingScalesIntegerSums) {
  on_every_isa([] {
    for (const int64_t columns : kColumns) {
      Random random(14);
      std::vector<int32_t> sums, column_sum;
      for (int64_t i = 0; i < 2 * columns; ++i) {
        sums.push_back(static_cast<int32_t>(random.below(100'000'000)) - 50'000'000);
      }
      for (int64_t i = 0; i < columns; ++i) {
        column_sum.push_back(static_cast<int32_t>(random.below(200'000)) - 100'000);
      }
      const auto scale = numbers(columns, 1e-3f, 0, 15), bias = numbers(columns, 1, 0, 16);
      const float row_scale[2] = {1e-3f, 0};
      const int32_t row_zero[2] = {131, 255};
      std::vector<float> out(static_cast<size_t>(2 * columns));
      FinishRowsArgs a{.rows = 2, .columns = columns, .sums = sums.data(), .sums_stride = columns};
      a.row_scale = row_scale;
      a.row_zero = row_zero;
      a.column_scale = scale.data();
      a.column_sum = column_sum.data();
      a.bias = bias.data();
      a.out = out.data();
      a.out_stride = columns;
      finish_rows(a);
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t c = i % static_cast<size_t>(columns), r = i / static_cast<size_t>(columns);
        const double centred = double(sums[i]) - double(row_zero[r]) * column_sum[c];
        const double e = double(row_scale[r]) * scale[c] * centred + bias[c];
        ASSERT_NEAR(out[i], e, 1e-5 + 2e-6 * std::abs(e)) << i;
      }
    }
  });
}

}  // namespace
}  // namespace tost::kernels
