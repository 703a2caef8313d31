#include "tost/io/crc.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
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
  }
}

TEST(Zip, TheChecksumIsZlibsAtEveryLength) {
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 700; ++i) bytes += static_cast<char>(random());
  for (size_t begin = 0; begin < 17; ++begin) {
    for (size_t size = 0; begin + size <= bytes.size(); size += size < 200 ? 1 : 37) {
      const std::string_view part = std::string_view(bytes).substr(begin, size);
      const auto expected = ::crc32_z(0, reinterpret_cast<const Bytef*>(part.data()), part.size());
      ASSERT_EQ(zip_crc32(part), expected) << begin << " " << size;
    }
  }
}

}  // namespace
}  // namespace tost
