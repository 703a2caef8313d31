#include "tost/kernels/attend_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tost/kernels/row_test_util.h"

namespace tost::kernels {
namespace {

using AttendRows = RowTest;

TEST_F(AttendRows, AttentionIsThatOfFloat64) {
  on_every_isa([] {
    for (const int64_t width : {5, 48, 100}) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        constexpr int64_t kRows = 21, kQueries = 5;
        RowsOf x(dtype, kRows, width);
        fill(x, kRows, 1, 0.5f, 17);
        const auto query = numbers(kQueries * width, 0.7f, 0, 18);
        std::vector<float> weights(kQueries * kRows), out(static_cast<size_t>(kQueries * width));
        attend_rows({kRows, width, kQueries, x.data(), x.stride, dtype, query.data(), 0.5f,
                     weights.data(), out.data(), DType::kFloat32});
        for (int64_t h = 0; h < kQueries; ++h) {
          std::vector<double> p;
          double total = 0;
          for (int64_t j = 0; j < kRows; ++j) {
            double logit = 0;
            for (int64_t c = 0; c < width; ++c) {
              logit += 0.5 * x.get(j, c) * query[static_cast<size_t>(h * width + c)];
            }
            p.push_back(std::exp(logit));
            total += p.back();
          }
          for (int64_t c = 0; c < width; ++c) {
            double e = 0;
            for (int64_t j = 0; j < kRows; ++j)
              e += p[static_cast<size_t>(j)] / total * x.get(j, c);
            ASSERT_NEAR(out[static_cast<size_t>(h * width + c)], e, 2e-5) << h << ", " << c;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace tost::kernels
