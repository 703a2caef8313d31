#include "tost/io/parse_json.h"

#include <gtest/gtest.h>

#include <string>

namespace tost {
namespace {

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "'f.json'", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), limits.error);
    return error.what();
  }
  return "";
}

std::string nested(size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(ParseJson, GivesWhatTheTextSays) {
  EXPECT_EQ(parse_json(R"({"b":[1,2.5,"[{\"["],"a":null})", "x").dump(),
            R"({"a":null,"b":[1,2.5,"[{\"["]})");
  EXPECT_EQ(parse_ordered_json(R"({"b":1,"a":2})", "x").dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(parse_json(" 7 \n", "x"), 7);
}

TEST(ParseJson, NamesThePlaceOfWhatIsWrong) {
  EXPECT_EQ(refusal("{\n \"a\": x}"), "'f.json' is not JSON at line 2, column 7.");
  EXPECT_EQ(refusal(""), "'f.json' is not JSON at byte 1.");
  EXPECT_EQ(refusal("{} {}"), "'f.json' is not JSON at byte 4.");
  EXPECT_EQ(refusal(std::string_view("{}\0", 3)), "'f.json' is not JSON at byte 3.");
  EXPECT_EQ(refusal("[1e999]"),
            "'f.json' is not JSON that can be read: it holds a number that is too large.");
  for (const char* bad :
       {"{", "[1,]", "{\"a\"}", "\"\xff\"", "\"\\ud800\"", "nul", "/**/1", "'a'", "{\"a\":1,}",
        "[\"\n\"]", "\xEF\xBB\xBF", "+1", "01", "NaN", "\\", "\"\\"}) {
    EXPECT_NE(refusal(bad), "") << bad;
  }
}

TEST(ParseJson, LimitsNesting) {
  EXPECT_EQ(refusal(nested(64)), "");
  EXPECT_EQ(refusal(nested(65)),
            "'f.json' is nested deeper than 64 levels; it is damaged or not what it should be.");
  EXPECT_NE(refusal(std::string(5'000'000, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(refusal(nested(3), {.nesting = 2}).find("than 2 levels"), std::string::npos);
  // Brackets in strings and lists side by side do not count.
  EXPECT_EQ(refusal("[\"" + std::string(1000, '[') + "\\\"[[\"]", {.nesting = 1}), "");
  EXPECT_EQ(refusal("[[],[],[],{},{}]", {.nesting = 2}), "");
  EXPECT_NE(refusal("[\"\\\\\",[[]]]", {.nesting = 2}).find("than 2 levels"), std::string::npos);
}

TEST(ParseJson, RefusesRepeatedKeysIfRequested) {
  const std::string twice = R"({"a":{"k":1},"b":{"k":1,"k":2}})";
  EXPECT_EQ(parse_json(twice, "x")["b"]["k"], 2);
  const JsonLimits strict{.unique_keys = true, .error = ErrorKind::kUsage};
  EXPECT_EQ(refusal(twice, strict), "'f.json' has the key 'k' twice in one object; leave one out.");
  EXPECT_EQ(refusal(R"([{"k":1},{"k":1}])", strict), "");
}

}  // namespace
}  // namespace tost
