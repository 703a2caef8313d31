#include "tost/io/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace tost {
namespace {

// Test vectors of RFC 3720, B.4.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, ChainsAtEveryCut) {
  const std::string text = "statistics of tokens, nineteen and more";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text)) << cut;
    EXPECT_EQ(crc32c_by_tables(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text)) << cut;
  }
}

}  // namespace
}  // namespace tost
