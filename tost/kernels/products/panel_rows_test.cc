#include "tost/kernels/products/panel_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tost/kernels/row_test_util.h"

namespace tost::kernels {
namespace {

constexpr int64_t kRows[] = {8, 9, 15, 16, 61};

// A product and the float64 sums it stands for.
struct Case {
  Case(int64_t rows, int64_t panels, int64_t inputs)
      : columns(panels * kPanelColumns),
        x(numbers(rows * (inputs + kGap), 1, 0, 1)),
        weight(numbers(panels * (inputs + 2) * kPanelColumns, 1, 0.5f, 2)),
        sums(size_t(rows * columns)) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = inputs; i < inputs + kGap; ++i) x[size_t(r * (inputs + kGap) + i)] = kNan;
    }
    args.x = x.data();
    args.x_stride = inputs + kGap;
    args.weight = weight.data();
    args.panel_stride = (inputs + 2) * kPanelColumns;
    args.inputs = inputs;
    args.finish.rows = rows;
    args.finish.columns = columns;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < columns; ++k) {
        const float* column =
            args.weight + k / kPanelColumns * args.panel_stride + k % kPanelColumns;
        double& sum = sums[size_t(r * columns + k)];
        for (int64_t i = 0; i < inputs; ++i) {
          sum += double(args.x[r * args.x_stride + i]) * column[i * kPanelColumns];
        }
      }
    }
  }

  void run(RowsOf& out) {
    args.finish.out = out.data();
    args.finish.out_stride = out.stride;
    args.finish.out_dtype = out.dtype;
    panel_product(args);
  }

  static constexpr int64_t kGap = 3;
  const int64_t columns;
  std::vector<float> x, weight;
  std::vector<double> sums;
  PanelProductArgs args;
};

class PanelRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_panel_product()) GTEST_SKIP() << "this CPU has no AVX-512";
  }
};

TEST_F(PanelRows, SumsAreAddedOntoRows) {
  for (const int64_t rows : kRows) {
    for (const int64_t panels : {1, 3}) {
      for (const int64_t inputs : {4, 36, 384}) {
        Case c(rows, panels, inputs);
        const auto bias = numbers(c.columns, 1, 0, 3), gamma = numbers(c.columns, 1, 0, 4);
        RowsOf out(DType::kFloat32, rows, c.columns);
        fill(out, rows, 1, 0, 5);
        const RowsOf before = out;
        c.args.finish.bias = panels == 1 ? nullptr : bias.data();
        c.args.finish.add = true;
        c.args.finish.gamma = gamma.data();
        c.run(out);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t k = 0; k < c.columns; ++k) {
            const double sum =
                c.sums[size_t(r * c.columns + k)] + (panels == 1 ? 0 : bias[size_t(k)]);
            const double e = before.get(r, k) + gamma[size_t(k)] * sum;
            ASSERT_NEAR(out.get(r, k), e, 1e-4 + 1e-6 * std::abs(e))
                << rows << " rows, " << inputs << " inputs: " << r << ", " << k;
          }
        }
        out.expect_marks(rows);
      }
    }
  }
}

TEST_F(PanelRows, SumsAreActivated) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    for (const int64_t rows : kRows) {
      Case c(rows, 2, 8);
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
}

TEST_F(PanelRows, AreNotUsedIfAnOlderSetIsForced) {
  force_isa("avx2");
  EXPECT_FALSE(has_panel_product());
  force_isa("auto");
  EXPECT_TRUE(has_panel_product());
}

}  // namespace
}  // namespace tost::kernels
