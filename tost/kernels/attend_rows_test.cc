#include "tost/kernels/attend_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tost/kernels/row_test_util.h"

namespace tost::kernels {
namespace {

using AttendRows = RowTest;

TEST_F(AttendRows, AttentionIsThatOfFloat64) {
  on_every_isa([] {
    for (const auto& [width, window] :
         {std::pair{5, -1}, {48, -1}, {100, -1}, {48, 0}, {5, 1}, {100, 3}, {48, 50}}) {
      for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
        constexpr int64_t kRows = 21, kQueries = 5;
        RowsOf x(dtype, kRows, width);
        fill(x, kRows, 1, 0.5f, 17);
        const auto query = numbers(kQueries * width, 0.7f, 0, 18);
        std::vector<float> weights(kQueries * kRows), out(static_cast<size_t>(kQueries * width));
        AttendRowsArgs a{kRows,        width, kQueries,       x.data(),   x.stride,       dtype,
                         query.data(), 0.5f,  weights.data(), out.data(), DType::kFloat32};
        a.causal = window >= 0;
        a.window = std::max<int64_t>(window, 0);
        attend_rows(a);
        for (int64_t h = 0; h < kQueries; ++h) {
          const int64_t last = a.causal ? kRows - kQueries + h : kRows - 1;
          std::vector<double> p;
          double total = 0;
          for (int64_t j = 0; j < kRows; ++j) {
            const bool seen = j <= last && (window <= 0 || j > last - window);
            double logit = 0;
            for (int64_t c = 0; c < width; ++c) {
              logit += 0.5 * x.get(j, c) * query[static_cast<size_t>(h * width + c)];
            }
            p.push_back(seen ? std::exp(logit) : 0);
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
