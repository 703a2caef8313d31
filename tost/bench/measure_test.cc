#include "tost/bench/measure.h"

#include <gtest/gtest.h>

#include <string>

namespace tost {
namespace {

TEST(Timing, QuartilesAreBetweenValues) {
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

TEST(Timing, ContestantsAlternateAndOnlyRoundsAfterWarmUpCount) {
  double clock = 0;
  std::string order;
  int called = 0;
  const Candidate first{[&] { order += 'a', clock += ++called; },
                        [&] { order += 'p', clock += 100; }};
  const Candidate second{[&] { order += 'b', clock += 7; }};
  const auto times = time_rounds(2, 3, {first, second}, [&] { return clock; });
  EXPECT_EQ(order, "pabpabpabpabpab");
  EXPECT_EQ(times, (std::vector<std::vector<double>>{{3, 4, 5}, {7, 7, 7}}));
}

}  // namespace
}  // namespace tost
