#include "tost/base/checked.h"

#include <gtest/gtest.h>

#include <limits>

namespace tost {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Checked, ComputesWhatFits) {
  EXPECT_EQ(checked_mul(3, 5, "x"), 15);
  EXPECT_EQ(checked_mul(0, kMax, "x"), 0);
  EXPECT_EQ(checked_add(kMax - 1, 1, "x"), kMax);
}

TEST(Checked, ThrowsADataErrorThatNamesTheQuantity) {
  try {
    checked_mul(kMax / 2, 3, "tensor 'w'");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find("tensor 'w'"), std::string::npos);
  }
  EXPECT_THROW(checked_add(kMax, 1, "x"), Error);
  EXPECT_THROW(checked_mul(-1, 1, "x"), Error);
  EXPECT_THROW(checked_add(1, -1, "x"), Error);
}

}  // namespace
}  // namespace tost
