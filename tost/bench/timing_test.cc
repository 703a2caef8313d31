#include "tost/bench/timing.h"

#include <gtest/gtest.h>

namespace tost {
namespace {

TEST(Timing, QuartilesLieBetweenValues) {
  const auto one = quartiles({7});
  EXPECT_EQ(one.low, 7);
  EXPECT_EQ(one.high, 7);
  const auto four = quartiles({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(four.low, 1.75);
  EXPECT_DOUBLE_EQ(four.median, 2.5);
  EXPECT_DOUBLE_EQ(four.high, 3.25);
  const auto five = quartiles({50, 10, 40, 20, 30});
  EXPECT_DOUBLE_EQ(five.low, 20);
  EXPECT_DOUBLE_EQ(five.median, 30);
  EXPECT_DOUBLE_EQ(five.high, 40);
}

TEST(Timing, CountsOnlyTheCallsAfterWarmUp) {
  double clock = 0;
  int prepared = 0, called = 0;
  const auto times = time_calls(
      2, 3,
      [&] {
        ++prepared;
        clock += 100;  // outside the time
      },
      [&] { clock += ++called; }, [&] { return clock; });
  EXPECT_EQ(prepared, 5);
  EXPECT_EQ(called, 5);
  EXPECT_EQ(times, (std::vector<double>{3, 4, 5}));
}

}  // namespace
}  // namespace tost
