#include "tost/base/utf8.h"

#include <gtest/gtest.h>

namespace tost {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const size_t length = utf8_length(text, 0);
    ASSERT_EQ(length, text.size()) << code;
    ASSERT_EQ(utf8_code_point(text, 0, length), code);
    if (length > 1) {
      ASSERT_EQ(utf8_length(text.substr(0, length - 1), 0), 0u) << code;
    }
  }
}

TEST(Utf8, RefusesWhatIsMalformed) {
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xE2\x82z", "\xF0\x9F\x98"}) {
    EXPECT_EQ(utf8_length(bad, 0), 0u) << bad;
    EXPECT_EQ(first_invalid_utf8(std::string("ab") + bad), 2u);
  }
  EXPECT_EQ(first_invalid_utf8("añ€😀"), 10u);
}

TEST(Utf8, TakesSurrogatesIfRequested) {
  for (const char* one : {"\xED\xA0\x80", "\xED\xAF\xBF", "\xED\xB0\x80", "\xED\xBF\xBF"}) {
    EXPECT_EQ(utf8_length(one, 0), 0u);
    EXPECT_EQ(utf8_length(one, 0, Surrogates::kTaken), 3u);
    const uint32_t code = utf8_code_point(one, 0, 3);
    EXPECT_TRUE(code >= 0xD800 && code < 0xE000) << code;
  }
  for (const char* bad :
       {"\xED\xA0", "\xED\xA0z", "\xED\xC0\x80", "\xF4\x90\x80\x80", "\xE0\x9F\xBF"}) {
    EXPECT_EQ(utf8_length(bad, 0, Surrogates::kTaken), 0u) << bad;
  }
}

TEST(Utf8, LinesEndAtLineBreaksOfEitherKind) {
  using Lines = std::vector<std::string_view>;
  EXPECT_EQ(lines_of("a\r\n\nb\n"), (Lines{"a", "", "b"}));
  EXPECT_EQ(lines_of("a\nb\r"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("\n"), Lines{""});
  EXPECT_EQ(lines_of(""), Lines{});
}

}  // namespace
}  // namespace tost
