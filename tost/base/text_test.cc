#include "tost/base/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "tost/base/error.h"

namespace tost {
namespace {

TEST(Text, NearestOffersTyposAndNothingFarFetched) {
  const std::vector<std::string> names = {"tost_nano_p4", "tost_nano_p2", "linear"};
  EXPECT_EQ(nearest("tost_nano_4", names), "tost_nano_p4");
  EXPECT_EQ(nearest("liner", names), "linear");
  EXPECT_EQ(nearest("resnet50", names), "");
  EXPECT_EQ(did_you_mean("liner", names), " Did you mean 'linear'?");
  EXPECT_EQ(did_you_mean("", {}), "");
}

// Undefined operations give a NaN whose sign is set on this kind of machine.
TEST(Text, ANanHasNoSign) {
  const double nan = std::copysign(std::numeric_limits<double>::quiet_NaN(), -1.0);
  EXPECT_EQ(cat("loss ", nan, ", ", static_cast<float>(nan), ", ", -1.5, ", ", "text"),
            "loss nan, nan, -1.5, text");
  EXPECT_EQ(format_text("%.2f %s %+.1f %lld", nan, "x", -0.5, 7LL), "nan x -0.5 7");
  EXPECT_FALSE(std::signbit(plain_nan(nan)));
  EXPECT_EQ(plain_nan(-0.5), -0.5);
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<int64_t>::max()), "8388608.0 TiB");
  EXPECT_EQ(human_number(5769328), "5,769,328");
  EXPECT_EQ(human_number(-1234), "-1,234");
  EXPECT_EQ(human_number(999), "999");
  EXPECT_EQ(human_number(-999), "-999");
  EXPECT_EQ(human_duration(3.21), "3.2s");
  EXPECT_EQ(human_duration(200), "3m20s");
  EXPECT_EQ(human_duration(7500), "2h05m");
  EXPECT_EQ(human_duration(-1), "?");
}

TEST(Text, SmallHelpers) {
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_TRUE(starts_with("tost_x", "tost_"));
  EXPECT_FALSE(starts_with("t", "tost_"));
  EXPECT_TRUE(ends_with("a.png", ".png"));
  EXPECT_EQ(to_lower("A.PNG"), "a.png");
}

}  // namespace
}  // namespace tost
