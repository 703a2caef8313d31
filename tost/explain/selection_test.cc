#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/explain/report.h"

namespace tost {
namespace {

using Numbers = std::vector<int64_t>;

TEST(Selection, NumbersAreSortedOnceAndWithinTheModel) {
  EXPECT_EQ(choose_numbers({}, 3, "layer"), (Numbers{1, 2, 3}));
  EXPECT_EQ(choose_numbers({3, 1, 3}, 3, "layer"), (Numbers{1, 3}));
  for (const int64_t wrong : {-1, 0, 4}) {
    EXPECT_THROW(choose_numbers({1, wrong}, 3, "layer"), Error) << wrong;
  }
  EXPECT_THROW(choose_numbers({1}, 0, "layer"), Error);
  EXPECT_TRUE(choose_numbers({}, 0, "layer").empty());
}

TEST(Selection, SpreadNumbersKeepBothEnds) {
  EXPECT_EQ(spread_numbers(12, 3), (Numbers{1, 7, 12}));
  EXPECT_EQ(spread_numbers(2, 3), (Numbers{1, 2}));
  EXPECT_EQ(spread_numbers(1, 3), (Numbers{1}));
  EXPECT_TRUE(spread_numbers(0, 3).empty());
}

}  // namespace
}  // namespace tost
