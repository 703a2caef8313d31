#include "tost/report/text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tost/base/error.h"
#include "tost/report/drawing.h"
#include "tost/report/page.h"
#include "tost/report/well_formed_test_util.h"

namespace tost {
namespace {

TEST(ReportText, EscapesMarkup) {
  EXPECT_EQ(escape_html("<script>\"a\" & 'b'</script>"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;");
  EXPECT_EQ(escape_html("Π ≤ 1 🐟\n\ttab"), "Π ≤ 1 🐟\n\ttab");
  EXPECT_EQ(escape_html(""), "");
}

TEST(ReportText, ReplacesWhatCannotBeShown) {
  const std::string bad = "\xEF\xBF\xBD";  // U+FFFD
  EXPECT_EQ(clean_text("a\x01z"), "a" + bad + "z");
  EXPECT_EQ(clean_text(std::string("a\0z", 3)), "a" + bad + "z");
  EXPECT_EQ(clean_text("\x7F\x1B[0m"), bad + bad + "[0m");
  EXPECT_EQ(clean_text("\xC2\x85"), bad);                            // U+0085, a control
  EXPECT_EQ(clean_text("\xFF\xC3"), bad + bad);                      // not UTF-8; cut off
  EXPECT_EQ(clean_text("\xC0\xAF"), bad + bad);                      // overlong '/'
  EXPECT_EQ(clean_text("\xED\xA0\x80"), bad + bad + bad);            // a surrogate
  EXPECT_EQ(clean_text("\xEF\xBF\xBE\xF0\x9F\xBF\xBF"), bad + bad);  // U+FFFE, U+1FFFF
}

TEST(ReportText, EveryByteEndsUpAsValidMarkup) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const auto elements =
      testing::elements_of("<t a=\"" + escape_html(all) + "\">" + escape_html(all) + "</t>");
  EXPECT_EQ(elements.size(), 1u);
}

TEST(ReportText, FitsTextIntoWidths) {
  EXPECT_EQ(fit_text("short", 12, 100), "short");
  const std::string name = "a rather long name of a file.jpg";
  for (const double width : {30.0, 60.0, 120.0}) {
    const std::string cut = fit_text(name, 12, width);
    EXPECT_LE(text_width(cut, 12), width);
    EXPECT_TRUE(cut.ends_with("…")) << cut;
    EXPECT_EQ(cut.find(name.substr(0, cut.size() - std::string("…").size())), 0u);
  }
  EXPECT_EQ(fit_text("ääääääääää", 10, 31), "ääää…");  // whole characters
  EXPECT_EQ(fit_text("anything", 12, 0), "…");
}

TEST(ReportText, WidthsGrowWithSizeAndWeight) {
  EXPECT_DOUBLE_EQ(text_width("abc", 20), 2 * text_width("abc", 10));
  EXPECT_GT(text_width("abc", 10, true), text_width("abc", 10));
  EXPECT_GT(text_width("WWW", 10), text_width("iii", 10));
  EXPECT_DOUBLE_EQ(text_width("日本", 10), 20);
  EXPECT_EQ(text_width("", 10), 0);
}

TEST(ReportText, CoordinatesAreShort) {
  EXPECT_EQ(coordinate(1), "1");
  EXPECT_EQ(coordinate(0.126), "0.13");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(-2.5), "-2.5");
  EXPECT_EQ(coordinate(1e6), "1000000");
  EXPECT_THROW(coordinate(std::nan("")), Error);
  EXPECT_THROW(coordinate(1.0 / 0.0), Error);
}

}  // namespace
}  // namespace tost
