#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "tost/kernels/products/tile_rows.h"
#include "tost/kernels/row_test_util.h"

namespace tost::kernels {
namespace {

// The numbers of a product, and what multiplies them.
struct Way {
  const char* name;
  Numbers numbers;
  bool tiles;
};
constexpr Way kWays[] = {{"BfloatOnTiles", Numbers::kBfloat16, true},
                         {"BfloatOnVectors", Numbers::kBfloat16, false},
                         {"Int8OnTiles", Numbers::kInt8, true},
                         {"Int8OnVectors", Numbers::kInt8, false},
                         {"Int16OnVectors", Numbers::kInt16, false}};

class GroupRows : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const auto sets = supported_isas();
    const bool avx2 = std::find(sets.begin(), sets.end(), "avx2") != sets.end();
    if (GetParam().numbers == Numbers::kInt16 && avx2) force_isa("avx2");
    if (!multiplies(GetParam().numbers)) GTEST_SKIP() << "this CPU does not multiply them";
    if (GetParam().tiles && !has_tiles()) GTEST_SKIP() << "this CPU has no tile units";
  }
  void TearDown() override { force_isa("auto"); }
};
INSTANTIATE_TEST_SUITE_P(Ways, GroupRows, testing::ValuesIn(kWays),
                         [](const auto& way) { return way.param.name; });

// A product and the float64 sums it stands for, with the factors of integers.
struct Case {
  // Random numbers, or the largest ones if `largest` is not 0: its sign is that of the weights.
  Case(const Way& way, int64_t rows, int64_t columns, int64_t words, int largest = 0)
      : way(way),
        integers(way.numbers != Numbers::kBfloat16),
        group(way.numbers == Numbers::kInt8 ? 4 : 2),
        inputs(words * group),
        sums(size_t(rows * columns)) {
    Random random(static_cast<uint64_t>(rows * 1000 + columns + words));
    const int64_t panels = (columns + kTileColumns - 1) / kTileColumns * 2;
    x.assign(size_t(rows * (words + kGap)), -1);                      // NaN between the rows
    weight.assign(size_t(panels * kGroupColumns * (words + 1)), -1);  // NaN between the panels
    for (int64_t c = columns; c < panels * kGroupColumns; ++c) {
      for (int64_t i = 0; i < words; ++i) weight[size_t(place(c, i, words))] = 0;
    }
    std::vector<double> from(size_t(rows * inputs)), to(size_t(columns * inputs));
    const auto any = [&](int64_t least, int64_t count) {
      return integers ? double(random.below(uint64_t(count))) + double(least)
                      : double(random.below(65)) / 8 - 4;
    };
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < inputs; ++i) {
        const double value = from[size_t(r * inputs + i)] = largest != 0 ? 255 : any(0, 256);
        put(&x[size_t(r * (words + kGap) + i / group)], i % group, value);
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t i = 0; i < inputs; ++i) {
        const double value = to[size_t(c * inputs + i)] =
            largest != 0 ? 127 * largest : any(-127, 255);
        put(&weight[size_t(place(c, i / group, words))], i % group, value);
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
    args.numbers = way.numbers;
    args.inputs = words;
    args.x = x.data();
    args.x_stride = words + kGap;
    args.weight = weight.data();
    args.panel_stride = kGroupColumns * (words + 1);
    if (!integers) return;
    for (int64_t r = 0; r < rows; ++r) {
      row_scale.push_back(largest != 0 ? 1 : 0.01f / static_cast<float>(r + 1));
      row_zero.push_back(largest != 0 ? 0 : static_cast<int32_t>(r * 37 % 256));
    }
    column_scale =
        largest != 0 ? std::vector(size_t(columns), 1.0f) : numbers(columns, 1e-4f, 1e-3f, 7);
    for (int64_t k = 0; k < columns; ++k) column_sum.push_back(static_cast<int32_t>(k * 101) - 900);
    args.finish.row_scale = row_scale.data();
    args.finish.row_zero = row_zero.data();
    args.finish.column_scale = column_scale.data();
    args.finish.column_sum = column_sum.data();
  }

  static int64_t place(int64_t column, int64_t word, int64_t words) {
    return column / 16 * 16 * (words + 1) + word * 16 + column % 16;
  }

  void put(int32_t* word, int64_t place, double value) const {
    const auto whole = static_cast<int16_t>(value);
    const uint16_t half = to_bf16(static_cast<float>(value));
    const void* from = integers ? static_cast<const void*>(&whole) : &half;
    const int64_t bytes = 4 / group;
    std::memcpy(reinterpret_cast<char*>(word) + place * bytes, from, size_t(bytes));
  }

  void run(RowsOf& out) {
    args.finish.out = out.data();
    args.finish.out_stride = out.stride;
    args.finish.out_dtype = out.dtype;
    way.tiles ? tile_product(args) : vector_product(args);
  }

  // A sum before the bias.
  double value(int64_t r, int64_t k) const {
    const double sum = sums[size_t(r * args.finish.columns + k)];
    if (!integers) return sum;
    return double(row_scale[size_t(r)]) * column_scale[size_t(k)] *
           (sum - double(row_zero[size_t(r)]) * column_sum[size_t(k)]);
  }

  static constexpr int64_t kGap = 3;
  const Way way;
  const bool integers;
  const int64_t group, inputs;
  std::vector<int32_t> x, weight;
  std::vector<double> sums;
  std::vector<float> row_scale, column_scale;
  std::vector<int32_t> row_zero, column_sum;
  ProductArgs args;
};

double gelu(double x, Activation activation) {
  if (activation == Activation::kGelu) return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

constexpr int64_t kRows[] = {0, 1, 7, 8, 15, 16, 17, 32, 33, 100};
constexpr int64_t kColumns[] = {1, 16, 31, 32, 33, 48, 96, 110};

std::vector<int64_t> widths(const Way& way) {
  if (way.tiles) return {16, 48, 192};
  return {0, 1, 3, 16, 50, 192};
}

TEST_P(GroupRows, SumsAreAddedOntoRows) {
  for (const int64_t rows : kRows) {
    for (const int64_t columns : kColumns) {
      for (const int64_t words : widths(GetParam())) {
        Case c(GetParam(), rows, columns, words);
        const auto bias = numbers(columns, 1, 0, 3), gamma = numbers(columns, 1, 0, 4);
        RowsOf out(DType::kFloat32, rows, columns);
        fill(out, rows, 1, 0, 5);
        const RowsOf before = out;
        FinishRowsArgs& a = c.args.finish;
        a.bias = columns == 31 ? nullptr : bias.data();
        a.add = true;
        a.gamma = gamma.data();
        c.run(out);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t k = 0; k < columns; ++k) {
            const double sum = c.value(r, k) + (a.bias != nullptr ? bias[size_t(k)] : 0);
            const double e = before.get(r, k) + gamma[size_t(k)] * sum;
            ASSERT_NEAR(out.get(r, k), e, 1e-4 + 1e-6 * std::abs(e))
                << rows << " x " << columns << " of " << words << ": " << r << ", " << k;
          }
        }
        out.expect_marks(rows);
      }
    }
  }
}

// What is fetched meanwhile may lie anywhere and have any size.
TEST_P(GroupRows, ResultsAreActivatedWhileMemoryIsFetched) {
  const std::vector<char> ahead(5000);
  for (const int64_t rows : kRows) {
    for (const int64_t columns : kColumns) {
      for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
        Case c(GetParam(), rows, columns, 96);
        const auto bias = numbers(columns, 1, 0, 9);
        RowsOf out(DType::kBfloat16, rows, columns);
        fill(out, rows, 1, 0, 10);
        FinishRowsArgs& a = c.args.finish;
        a.bias = bias.data();
        a.activation = activation;
        c.args.next = {ahead.data() + 1, rows * 7, rows * 31, columns % 7};
        c.run(out);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t k = 0; k < columns; ++k) {
            const double e = gelu(c.value(r, k) + bias[size_t(k)], activation);
            ASSERT_NEAR(out.get(r, k), e, (c.integers ? 1.2e-3 : 1e-4) + std::abs(e) / 128)
                << rows << " x " << columns << ": " << r << ", " << k;
          }
        }
        out.expect_marks(rows);
      }
    }
  }
}

// Where sums of two products of bytes leave 16 bits.
TEST_P(GroupRows, TheLargestIntegersDoNotSaturate) {
  if (GetParam().numbers == Numbers::kBfloat16) GTEST_SKIP() << "no integers";
  for (const int sign : {1, -1}) {
    Case c(GetParam(), 9, 48, 384, sign);
    RowsOf out(DType::kFloat32, 9, 48);
    c.run(out);
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t k = 0; k < 48; ++k) ASSERT_EQ(out.get(r, k), float(c.value(r, k)));
    }
  }
}

// So that threads may share rows and columns in any way.
TEST_P(GroupRows, ResultsDependOnNoOtherRowAndColumn) {
  constexpr int64_t kAll = 29, kWidth = 150;
  Case c(GetParam(), kAll, kWidth, 80);
  RowsOf whole(DType::kFloat32, kAll, kWidth), part(DType::kFloat32, kAll, kWidth);
  c.run(whole);
  const int64_t unit = shared_columns(GetParam().numbers);
  const ProductArgs all = c.args;
  for (int64_t r = 0; r < kAll; ++r) {
    for (int64_t k = 0; k < kWidth; k += unit) {
      c.args = all;
      FinishRowsArgs& a = c.args.finish;
      c.args.x = &c.x[size_t(r * all.x_stride)];
      c.args.weight = &c.weight[size_t(k / kGroupColumns * all.panel_stride)];
      a.rows = 1;
      a.columns = std::min(unit, kWidth - k);
      if (c.integers) {
        a.row_scale += r;
        a.row_zero += r;
        a.column_scale += k;
        a.column_sum += k;
      }
      a.out = static_cast<float*>(part.data()) + r * part.stride + k;
      a.out_stride = part.stride;
      c.way.tiles ? tile_product(c.args) : vector_product(c.args);
    }
    for (int64_t k = 0; k < kWidth; ++k) ASSERT_EQ(part.get(r, k), whole.get(r, k)) << r;
  }
}

TEST(Numbers, AreMultipliedByTheSetInUse) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    EXPECT_TRUE(multiplies(Numbers::kFloat32));
    EXPECT_EQ(multiplies(Numbers::kInt16), isa == "avx2") << isa;
    if (isa == "avx512") continue;
    EXPECT_FALSE(multiplies(Numbers::kBfloat16)) << isa;
    EXPECT_FALSE(multiplies(Numbers::kInt8)) << isa;
    EXPECT_FALSE(has_tiles()) << isa;
  }
  force_isa("auto");
}

}  // namespace
}  // namespace tost::kernels
