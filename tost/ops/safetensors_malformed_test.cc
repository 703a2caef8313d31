// Files that break one rule of the format each, and their closest valid neighbours.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/engine/arrays_file.h"
#include "tost/io/safetensors_header.h"
#include "tost/io/safetensors_test_util.h"

namespace tost {
namespace {

using namespace testing;

class SafetensorsCase : public ::testing::TestWithParam<SafetensorsFileCase> {};

TEST_P(SafetensorsCase, IsAcceptedOrRefusedWithAReason) {
  const auto& c = GetParam();
  const auto bytes = std::make_shared<std::string>(c.bytes);
  if (*c.message == '\0') {
    EXPECT_NO_THROW(parse_arrays(bytes, "f.safetensors"));
    return;
  }
  try {
    parse_arrays(bytes, "f.safetensors");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    const std::string text = error.what();
    EXPECT_NE(text.find(c.message), text.npos) << text;
    EXPECT_NE(text.find("f.safetensors"), text.npos) << text;
  }
}

std::string case_name(const ::testing::TestParamInfo<SafetensorsFileCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Frame, SafetensorsCase, ::testing::ValuesIn(frame_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Entry, SafetensorsCase, ::testing::ValuesIn(entry_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Place, SafetensorsCase, ::testing::ValuesIn(place_cases()), case_name);

TEST(SafetensorsTruncation, EveryPrefixOfAValidFileIsRefused) {
  const std::string whole = make_file(kGood, 8);
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto cut = std::make_shared<std::string>(whole.substr(0, length));
    EXPECT_THROW(parse_arrays(cut, "cut"), Error) << length;
  }
}

TEST(SafetensorsTruncation, EveryFlippedByteIsReadOrRefusedButNeverHarmful) {
  const std::string whole = make_file(kGood, 8);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int flip = 1; flip < 256; ++flip) {
      auto bytes = std::make_shared<std::string>(whole);
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ flip);
      try {
        const auto file = parse_arrays(bytes, "flipped");
        for (const auto& [name, array] : file.arrays) ASSERT_LE(array.bytes(), 8);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace tost
