#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tost/base/random.h"
#include "tost/kernels/isa.h"
#include "tost/kernels/products/wide_rows.h"

namespace tost::kernels {
namespace {

class PairRows : public testing::Test {
 protected:
  void SetUp() override {
    const auto sets = supported_isas();
    if (std::find(sets.begin(), sets.end(), "avx2") == sets.end()) GTEST_SKIP() << "no AVX2 here";
    force_isa("avx2");
    ASSERT_TRUE(has_pair_product());
  }
  void TearDown() override { force_isa("auto"); }
};

// Sums of all columns of these rows, which stand `gap` numbers apart, and that nothing else is
// written.
void expect_exact(int64_t rows, int64_t inputs, const std::vector<int16_t>& x, int64_t gap,
                  const std::vector<int16_t>& weight) {
  constexpr int32_t kMark = -123456789;
  std::vector<int32_t> sums(size_t((rows + 1) * kPairColumns), kMark);
  pair_product({rows, inputs, x.data(), inputs + gap, weight.data(), sums.data()});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < kPairColumns; ++c) {
      int64_t sum = 0;
      for (int64_t i = 0; i < inputs; ++i) {
        sum += int64_t{x[size_t(r * (inputs + gap) + i)]} *
               weight[size_t((i / 2 * kPairColumns + c) * 2 + i % 2)];
      }
      ASSERT_EQ(sums[size_t(r * kPairColumns + c)], sum) << rows << " rows: " << r << ", " << c;
    }
  }
  EXPECT_EQ(std::count(sums.end() - kPairColumns, sums.end(), kMark), kPairColumns);
}

TEST_F(PairRows, SumsAreExact) {
  Random random(1);
  for (const int64_t rows : {0, 1, 5, 6, 7, 12, 41}) {
    for (const int64_t inputs : {2, 64, 386}) {
      const int64_t gap = rows % 2 == 0 ? 0 : 3;
      std::vector<int16_t> x(size_t(rows * (inputs + gap))), weight(size_t(inputs * kPairColumns));
      for (auto& value : x) value = int16_t(random.below(256));
      for (auto& value : weight) value = int16_t(random.below(255) - 127);
      expect_exact(rows, inputs, x, gap, weight);
    }
  }
}

// Where sums of two products of bytes leave 16 bits.
TEST_F(PairRows, TheLargestNumbersDoNotSaturate) {
  constexpr int64_t kRows = 7, kInputs = 1536;
  const std::vector<int16_t> x(kRows * kInputs, 255);
  for (const int16_t value : {127, -127}) {
    expect_exact(kRows, kInputs, x, 0, std::vector<int16_t>(kInputs * kPairColumns, value));
  }
}

TEST_F(PairRows, StayAwayFromOtherSets) {
  for (const auto& isa : supported_isas()) {
    force_isa(isa);
    EXPECT_EQ(has_pair_product(), isa == "avx2") << isa;
  }
}

}  // namespace
}  // namespace tost::kernels
