#include "tost/train/event_file.h"

#include <gtest/gtest.h>

#include "tost/io/crc.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | uint8_t(bytes[i - 1]);
  return value;
}

uint32_t unmask(uint64_t masked) {
  const uint32_t rotated = uint32_t(masked) - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

TEST(EventFile, RecordFraming) {
  const std::string record = frame_record("hello");
  ASSERT_EQ(record.size(), 8u + 4 + 5 + 4);
  EXPECT_EQ(little_endian(record.substr(0, 8)), 5u);
  EXPECT_EQ(unmask(little_endian(record.substr(8, 4))), crc32c(record.substr(0, 8)));
  EXPECT_EQ(record.substr(12, 5), "hello");
  EXPECT_EQ(unmask(little_endian(record.substr(17, 4))), crc32c("hello"));
}

// Field by field after the protobuf wire format: wall_time 1 as double, step 300 as a two-byte
// varint, summary with one value of tag "a" and simple_value 1.0f.
TEST(EventFile, ScalarEncoding) {
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"
      "\x10\xac\x02"
      "\x2a\x0a"
      "\x0a\x08"
      "\x0a\x01"
      "a"
      "\x15\x00\x00\x80\x3f",
      9 + 3 + 2 + 2 + 3 + 5);
  EXPECT_EQ(encode_scalars(1.0, 300, {{"a", 1.0}}), expected);
}

TEST(EventFile, StartsWithTheVersionAndNeverReusesAName) {
  const testing::TempDir dir;
  const EventFile first(dir.path(), 0), second(dir.path(), 11);
  EXPECT_NE(first.path(), second.path());
  const std::string content = read_file(second.path(), 1000);
  EXPECT_NE(content.find("brain.Event:2"), std::string::npos);
  EXPECT_EQ(little_endian(content.substr(0, 8)), encode_file_version(0).size());
  EXPECT_GT(content.size(), read_file(first.path(), 1000).size()) << "the session start is missing";
}

}  // namespace
}  // namespace tost
