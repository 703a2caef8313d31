#include "tost/kernels/products/wide_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tost/kernels/row_test_util.h"

namespace tost::kernels {
namespace {

constexpr int64_t kRows[] = {0, 1, 2, 5, 6, 8, 13, 61};
constexpr int64_t kColumns[] = {1, 15, 16, 33, 48, 150};

// A product and the float64 sums it stands for.
struct Case {
  Case(int64_t rows, int64_t columns, int64_t inputs, int64_t panel_columns)
      : columns(columns),
        x(numbers(rows * (inputs + kGap) + 1, 1, 0, 1)),
        weight(size_t((columns / panel_columns + 1) * (inputs + 2) * panel_columns)),
        sums(size_t(rows * columns)) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = inputs; i < inputs + kGap; ++i) x[size_t(r * (inputs + kGap) + i)] = kNan;
    }
    args.x = x.data();
    args.x_stride = inputs + kGap;
    args.weight = weight.data();
    args.panel_columns = panel_columns;
    args.panel_stride = (inputs + 2) * panel_columns;
    args.inputs = inputs;
    args.finish.rows = rows;
    args.finish.columns = columns;
    const auto values = numbers(columns * inputs + 1, 1, 0.5f, 2);
    for (int64_t k = 0; k < columns; ++k) {
      for (int64_t i = 0; i < inputs; ++i) {
        const float w = values[size_t(k * inputs + i)];
        weight[size_t(k / panel_columns * args.panel_stride + i * panel_columns +
                      k % panel_columns)] = w;
        for (int64_t r = 0; r < rows; ++r) {
          sums[size_t(r * columns + k)] += double(x[size_t(r * args.x_stride + i)]) * w;
        }
      }
    }
  }

  void run(RowsOf& out) {
    args.finish.out = out.data();
    args.finish.out_stride = out.stride;
    args.finish.out_dtype = out.dtype;
    product(args);
  }

  static constexpr int64_t kGap = 3;
  const int64_t columns;
  std::vector<float> x, weight;
  std::vector<double> sums;
  ProductArgs args;
};

class WideRows : public RowTest {};

TEST_F(WideRows, SumsAreAddedOntoRows) {
  on_every_isa([] {
    for (const int64_t panel : {16, 48}) {
      for (const int64_t rows : kRows) {
        for (const int64_t columns : kColumns) {
          for (const int64_t inputs : {0, 1, 4, 39, 384}) {
            Case c(rows, columns, inputs, panel);
            const auto bias = numbers(columns, 1, 0, 3), gamma = numbers(columns, 1, 0, 4);
            RowsOf out(DType::kFloat32, rows, columns);
            fill(out, rows, 1, 0, 5);
            const RowsOf before = out;
            const bool biased = inputs % 2 == 0;
            c.args.finish.bias = biased ? bias.data() : nullptr;
            c.args.finish.add = true;
            c.args.finish.gamma = gamma.data();
            c.run(out);
            for (int64_t r = 0; r < rows; ++r) {
              for (int64_t k = 0; k < columns; ++k) {
                const double sum = c.sums[size_t(r * columns + k)] + (biased ? bias[size_t(k)] : 0);
                const double e = before.get(r, k) + gamma[size_t(k)] * sum;
                ASSERT_NEAR(out.get(r, k), e, 1e-4 + 1e-6 * std::abs(e))
                    << rows << " x " << columns << " of " << inputs << ": " << r << ", " << k;
              }
            }
            out.expect_marks(rows);
          }
        }
      }
    }
  });
}

TEST_F(WideRows, SumsAreActivated) {
  on_every_isa([] {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (const int64_t rows : kRows) {
        Case c(rows, 67, 8, wide_columns());
        const auto bias = numbers(c.columns, 1, 0, 6);
        RowsOf out(dtype, rows, c.columns);
        c.args.finish.bias = bias.data();
        c.args.finish.activation = Activation::kGelu;
        c.run(out);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t k = 0; k < c.columns; ++k) {
            const double value = c.sums[size_t(r * c.columns + k)] + bias[size_t(k)];
            const double e = value * 0.5 * std::erfc(-value / std::sqrt(2.0));
            const double bound = dtype == DType::kFloat32 ? 5e-6 : 2e-4 + std::abs(e) / 200;
            ASSERT_NEAR(out.get(r, k), e, bound) << rows << " rows: " << r << ", " << k;
          }
        }
        out.expect_marks(rows);
      }
    }
  });
}

// So that threads may share rows and panels in any way.
TEST_F(WideRows, ResultsDependOnNoOtherRowAndColumn) {
  on_every_isa([] {
    constexpr int64_t kAll = 29, kWidth = 150;
    Case c(kAll, kWidth, 77, wide_columns());
    RowsOf whole(DType::kFloat32, kAll, kWidth), part(DType::kFloat32, 1, kWidth);
    c.run(whole);
    for (int64_t r = 0; r < kAll; ++r) {
      for (int64_t k = 0; k < kWidth; k += wide_columns()) {
        ProductArgs one = c.args;
        one.x = &c.x[size_t(r * one.x_stride)];
        one.weight = &c.weight[size_t(k / one.panel_columns * one.panel_stride)];
        one.finish.rows = 1;
        one.finish.columns = std::min(wide_columns(), kWidth - k);
        one.finish.out = static_cast<float*>(part.data()) + k;
        product(one);
      }
      for (int64_t k = 0; k < kWidth; ++k) ASSERT_EQ(part.get(0, k), whole.get(r, k)) << r;
    }
  });
}

}  // namespace
}  // namespace tost::kernels
