#include "tost/report/ticks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tost {
namespace {

std::vector<std::string> labels(const Scale& scale) {
  std::vector<std::string> all;
  for (const Tick& tick : scale.ticks) {
    if (!tick.label.empty()) all.push_back(tick.label);
  }
  return all;
}

Scale scale_of(const std::vector<double>& values, const Axis& axis = {}, Ends ends = Ends::kTicks,
               int count = 5) {
  return make_scale(axis, values, count, ends);
}

using Labels = std::vector<std::string>;

TEST(Ticks, StandAtRoundNumbers) {
  const Scale scale = scale_of({0.13, 0.87});
  EXPECT_EQ(labels(scale), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_DOUBLE_EQ(scale.low, 0);
  EXPECT_DOUBLE_EQ(scale.high, 1);
  EXPECT_EQ(labels(scale_of({-37, 60})), (Labels{"−40", "−20", "0", "20", "40", "60"}));
  EXPECT_EQ(labels(scale_of({12000, 49000})),
            (Labels{"10,000", "20,000", "30,000", "40,000", "50,000"}));
  EXPECT_EQ(labels(scale_of({0.001, 0.0049})),
            (Labels{"0.001", "0.002", "0.003", "0.004", "0.005"}));
}

TEST(Ticks, TightEndsAndZero) {
  const Scale tight = scale_of({3, 17}, {}, Ends::kTight);
  EXPECT_DOUBLE_EQ(tight.low, 3);
  EXPECT_DOUBLE_EQ(tight.high, 17);
  EXPECT_EQ(labels(tight), (Labels{"5", "10", "15"}));
  EXPECT_DOUBLE_EQ(scale_of({3, 17}, {}, Ends::kZero).low, 0);
  EXPECT_DOUBLE_EQ(scale_of({-3, -1}, {}, Ends::kZero).high, 0);
}

TEST(Ticks, KeepGivenEnds) {
  Axis axis;
  axis.low = 0.25;
  axis.high = 0.75;
  const Scale scale = scale_of({0, 100}, axis);
  EXPECT_DOUBLE_EQ(scale.low, 0.25);
  EXPECT_DOUBLE_EQ(scale.high, 0.75);
  for (const Tick& tick : scale.ticks) {
    EXPECT_GE(scale.place(tick.value), -1e-9);
    EXPECT_LE(scale.place(tick.value), 1 + 1e-9);
  }
  axis.low = 5;
  axis.high = 1;  // the wrong way round still gives a scale
  EXPECT_GT(scale_of({}, axis).high, scale_of({}, axis).low);
}

TEST(Ticks, WholeNumbersAlone) {
  Axis axis;
  axis.integer = true;
  EXPECT_EQ(labels(scale_of({0, 2}, axis, Ends::kTight, 10)), (Labels{"0", "1", "2"}));
  EXPECT_EQ(labels(scale_of({0, 11}, axis, Ends::kTight, 6)),
            (Labels{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(scale_of({7}, axis)), (Labels{"6", "7", "8"}));
}

TEST(Ticks, Logarithmic) {
  Axis axis;
  axis.logarithmic = true;
  const Scale wide = scale_of({1.5e-6, 300}, axis, Ends::kTicks, 12);
  EXPECT_DOUBLE_EQ(wide.low, 1e-6);
  EXPECT_DOUBLE_EQ(wide.high, 1000);
  EXPECT_EQ(labels(wide),
            (Labels{"10⁻⁶", "10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1", "10", "100", "1000"}));
  EXPECT_NEAR(wide.place(1e-6), 0, 1e-12);
  EXPECT_NEAR(wide.place(std::sqrt(1e-6 * 1000)), 0.5, 1e-12);
  const Scale narrow = scale_of({2.1, 40}, axis);
  EXPECT_EQ(labels(narrow), (Labels{"2", "5", "10", "20", "50"}));
  // Values that have no logarithm do not count.
  EXPECT_DOUBLE_EQ(scale_of({-5, 0, 2.1, 40}, axis).low, narrow.low);
  EXPECT_EQ(labels(scale_of({1, 1e12}, axis, Ends::kTicks, 4)),
            (Labels{"1", "1000", "10⁶", "10⁹", "10¹²"}));
}

TEST(Ticks, OddInputGivesAnOrderedScale) {
  const double nan = std::nan(""), inf = 1.0 / 0.0;
  const std::vector<std::vector<double>> cases = {{},
                                                  {nan},
                                                  {inf, -inf},
                                                  {0},
                                                  {5},
                                                  {-3e-9},
                                                  {1e300, -1e300},
                                                  {1e-310, 2e-310},
                                                  {1e15, 1e15 + 1},
                                                  {1, 1 + 1e-15},
                                                  {-1e299, 1e-299}};
  for (const bool logarithmic : {false, true}) {
    for (const Ends ends : {Ends::kTight, Ends::kTicks, Ends::kZero}) {
      for (const auto& values : cases) {
        Axis axis;
        axis.logarithmic = logarithmic;
        const Scale scale = scale_of(values, axis, ends);
        ASSERT_LT(scale.low, scale.high);
        ASSERT_LE(scale.ticks.size(), 100u);
        for (const Tick& tick : scale.ticks) {
          EXPECT_GE(scale.place(tick.value), -1e-6) << tick.label;
          EXPECT_LE(scale.place(tick.value), 1 + 1e-6) << tick.label;
        }
        for (const double value : values) {
          if (!can_be_shown(value, logarithmic)) continue;
          EXPECT_GE(scale.place(value), -1e-6);
          EXPECT_LE(scale.place(value), 1 + 1e-6);
        }
      }
    }
  }
}

TEST(Ticks, HugeAndTinyNumbersArePowersOfTen) {
  EXPECT_EQ(labels(scale_of({0, 4.1e12})),
            (Labels{"0", "1×10¹²", "2×10¹²", "3×10¹²", "4×10¹²", "5×10¹²"}));
  EXPECT_EQ(labels(scale_of({-2e-7, 2e-7})),
            (Labels{"−2×10⁻⁷", "−1×10⁻⁷", "0", "1×10⁻⁷", "2×10⁻⁷"}));
}

TEST(FormatValue, SignificantDigits) {
  EXPECT_EQ(format_value(0), "0");
  EXPECT_EQ(format_value(0.125), "0.125");
  EXPECT_EQ(format_value(1.0 / 3), "0.3333");
  EXPECT_EQ(format_value(-3), "−3");
  EXPECT_EQ(format_value(9.99996), "10");
  EXPECT_EQ(format_value(1234567.8), "1,234,568");
  EXPECT_EQ(format_value(1.2e-7), "1.2×10⁻⁷");
  EXPECT_EQ(format_value(-5e20), "−5×10²⁰");
  EXPECT_EQ(format_value(0.5, 1), "0.5");
  EXPECT_EQ(format_value(110.763, 6), "110.763");
  EXPECT_EQ(format_value(std::nan("")), "no value");
  EXPECT_EQ(format_value(-1.0 / 0.0), "−∞");
  EXPECT_EQ(format_fixed(-0.0001, 2), "0.00");
}

}  // namespace
}  // namespace tost
