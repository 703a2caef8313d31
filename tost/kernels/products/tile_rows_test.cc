#include "tost/kernels/products/tile_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tost/kernels/row_test_util.h"

namespace tost::kernels {
namespace {

// A product and the float64 sums it stands for.
struct Case {
  Case(bool integers, int64_t rows, int64_t columns, int64_t steps)
      : group(integers ? 4 : 2), inputs(steps * 16 * group), sums(size_t(rows * columns)) {
    Random random(static_cast<uint64_t>(rows * 1000 + columns + steps));
    const int64_t bytes = kTileStep / (16 * group), blocks = (columns + 31) / 32;
    x.resize(size_t(rows * (steps * kTileStep + kGap)), 0xFF);  // NaN between the rows
    weight.resize(size_t(blocks * kTileColumns * steps * kTileStep));
    std::vector<double> from(size_t(rows * inputs)), to(size_t(columns * inputs));
    const auto put = [&](std::vector<uint8_t>& bytes_of, int64_t at, double value) {
      if (integers) {
        bytes_of[size_t(at)] = static_cast<uint8_t>(static_cast<int>(value));
        return;
      }
      const uint16_t half = to_bf16(static_cast<float>(value));
      std::memcpy(&bytes_of[size_t(at * bytes)], &half, 2);
    };
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < inputs; ++i) {
        const double value =
            integers ? double(random.below(256)) : double(random.below(65)) / 8 - 4;
        from[size_t(r * inputs + i)] = value;
        put(x, r * (inputs + kGap / bytes) + i, value);
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t i = 0; i < inputs; ++i) {
        const double value =
            integers ? double(random.below(255)) - 127 : double(random.below(65)) / 8 - 4;
        to[size_t(c * inputs + i)] = value;
        const int64_t step = i / (16 * group), inner = i % (16 * group);
        const int64_t tile = (c / 16 * steps + step) * 16 + inner / group;
        put(weight, (tile * 16 + c % 16) * group + inner % group, value);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        double& sum = sums[size_t(r * columns + c)];
        for (int64_t i = 0; i < inputs; ++i)
          sum += from[size_t(r * inputs + i)] * to[size_t(c * inputs + i)];
      }
    }
    args.finish.rows = rows;
    args.finish.columns = columns;
    args.x = x.data();
    args.x_bytes = steps * kTileStep + kGap;
    args.weight = weight.data();
    args.block_bytes = kTileColumns * steps * kTileStep;
    args.steps = steps;
  }

  static constexpr int64_t kGap = 12;
  int64_t group, inputs;
  std::vector<uint8_t> x, weight;
  std::vector<double> sums;
  TileProductArgs args;
};

double gelu(double x, Activation activation = Activation::kGelu) {
  if (activation == Activation::kGelu) return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

class TileRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_tiles()) GTEST_SKIP() << "this CPU has no tile units";
  }
};

constexpr int64_t kRows[] = {1, 15, 16, 17, 32, 33, 100};
constexpr int64_t kColumns[] = {1, 16, 31, 32, 33, 96};

TEST_F(TileRows, BfloatProductsAreThoseOfFloat64) {
  for (const int64_t rows : kRows) {
    for (const int64_t columns : kColumns) {
      for (const int64_t steps : {1, 3, 12}) {
        Case c(false, rows, columns, steps);
        const auto bias = numbers(columns, 1, 0, 3), gamma = numbers(columns, 1, 0, 4);
        RowsOf out(DType::kFloat32, rows, columns);
        fill(out, rows, 1, 0, 5);
        const RowsOf before = out;
        FinishRowsArgs& a = c.args.finish;
        a.bias = columns == 31 ? nullptr : bias.data();
        a.add = true;
        a.gamma = gamma.data();
        a.out = out.data();
        a.out_stride = out.stride;
        tile_product(c.args);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t k = 0; k < columns; ++k) {
            const double sum =
                c.sums[size_t(r * columns + k)] + (a.bias != nullptr ? bias[size_t(k)] : 0);
            const double e = before.get(r, k) + gamma[size_t(k)] * sum;
            ASSERT_NEAR(out.get(r, k), e, 1e-4 + 1e-6 * std::abs(e))
                << rows << " x " << columns << ": " << r << ", " << k;
          }
        }
        out.expect_marks(rows);
      }
    }
  }
}

// What is fetched meanwhile may lie anywhere and have any size.
TEST_F(TileRows, BfloatResultsAreActivatedWhileMemoryIsFetched) {
  const std::vector<char> ahead(5000);
  for (const int64_t rows : kRows) {
    for (const int64_t columns : kColumns) {
      for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
        Case c(false, rows, columns, 6);
        const auto bias = numbers(columns, 1, 0, 9);
        RowsOf out(DType::kBfloat16, rows, columns);
        fill(out, rows, 1, 0, 10);
        FinishRowsArgs& a = c.args.finish;
        a.bias = bias.data();
        a.activation = activation;
        a.out = out.data();
        a.out_stride = out.stride;
        a.out_dtype = DType::kBfloat16;
        c.args.next = {ahead.data() + 1, rows * 7, rows * 31, columns % 7};
        tile_product(c.args);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t k = 0; k < columns; ++k) {
            const double e = gelu(c.sums[size_t(r * columns + k)] + bias[size_t(k)], activation);
            ASSERT_NEAR(out.get(r, k), e, 1e-4 + std::abs(e) / 128)
                << rows << " x " << columns << ": " << r << ", " << k;
          }
        }
        out.expect_marks(rows);
      }
    }
  }
}

TEST_F(TileRows, IntegersAreScaledAndActivated) {
  for (const int64_t rows : kRows) {
    for (const int64_t columns : kColumns) {
      Case c(true, rows, columns, 3);
      const auto bias = numbers(columns, 1, 0, 6), column_scale = numbers(columns, 1e-4f, 1e-3f, 7);
      std::vector<float> row_scale;
      std::vector<int32_t> row_zero, column_sum;
      for (int64_t r = 0; r < rows; ++r) {
        row_scale.push_back(0.01f / static_cast<float>(r + 1));
        row_zero.push_back(static_cast<int32_t>(r * 37 % 256));
      }
      for (int64_t k = 0; k < columns; ++k)
        column_sum.push_back(static_cast<int32_t>(k * 101) - 900);
      RowsOf out(DType::kBfloat16, rows, columns);
      fill(out, rows, 1, 0, 8);
      FinishRowsArgs& a = c.args.finish;
      a.row_scale = row_scale.data();
      a.row_zero = row_zero.data();
      a.column_scale = column_scale.data();
      a.column_sum = column_sum.data();
      a.bias = bias.data();
      a.activation = Activation::kGelu;
      a.out = out.data();
      a.out_stride = out.stride;
      a.out_dtype = DType::kBfloat16;
      tile_product(c.args);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < columns; ++k) {
          const double centred =
              c.sums[size_t(r * columns + k)] - double(row_zero[size_t(r)]) * column_sum[size_t(k)];
          const double e = gelu(double(row_scale[size_t(r)]) * column_scale[size_t(k)] * centred +
                                bias[size_t(k)]);
          ASSERT_NEAR(out.get(r, k), e, 1.2e-3 + std::abs(e) / 200)
              << rows << " x " << columns << ": " << r << ", " << k;
        }
      }
      out.expect_marks(rows);
    }
  }
}

TEST_F(TileRows, AreNotUsedIfAnOlderSetIsForced) {
  force_isa("avx2");
  EXPECT_FALSE(has_tiles());
  force_isa("auto");
  EXPECT_TRUE(has_tiles());
}

}  // namespace
}  // namespace tost::kernels
