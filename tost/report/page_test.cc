#include "tost/report/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tost/base/error.h"
#include "tost/report/chart.h"
#include "tost/report/color_map.h"
#include "tost/report/panels.h"
#include "tost/report/well_formed_test_util.h"

namespace tost {
namespace {

using testing::count_named;
using testing::Element;
using testing::elements_of;

constexpr char kHostile[] = "<script>alert(\"1\")</script> & 'x' \xFF\x01 <img src=x onerror=y>";

Image small_image() {
  return heat_image({0, 0.25, 0.5, 1}, 2, 2, 0, 1);
}

ThumbGrid grid(const std::string& name) {
  ThumbGrid grid;
  grid.name = name;
  grid.caption = kHostile;
  grid.row_names = {"layer 0", kHostile};
  grid.column_names = {"head 0", "head 1"};
  grid.rows = {{{small_image(), "0.1", kHostile}, {small_image(), "", ""}}, {{}}};
  return grid;
}

Page full_page() {
  Page page(kHostile, kHostile);
  page.section("first", kHostile, kHostile);
  page.heading(kHostile);
  page.paragraph(kHostile);
  page.note(kHostile);
  page.facts({{kHostile, kHostile}});
  page.table({kHostile, {"name", kHostile}, {{{kHostile}, {"1.5", true, true}}}});
  LineChart chart;
  chart.title = kHostile;
  chart.series = {{.name = kHostile, .x = {0, 1}, .y = {1, 2}}};
  page.chart("curve", draw(chart), kHostile);
  page.charts({{"left", draw(chart)}, {"right", draw(chart)}}, kHostile);
  page.section("second", "Second");
  page.picture("input", small_image(), kHostile, 64, false, kHostile);
  page.thumbs(grid("grid"));
  page.chooser("layers", {{kHostile, grid("layer-0")}, {"1", grid("layer-1")}});
  page.begin_details(kHostile);
  page.colored_text("passage",
                    {{kHostile, {255, 0, 0}, 0.5, kHostile, true}, {"plain\n"}, {"strong", {}, 9}},
                    kHostile);
  page.end_details();
  return page;
}

TEST(Page, IsWellFormedWhateverItsWords) {
  const std::string html = full_page().html();
  const auto elements = elements_of(html, true);
  EXPECT_EQ(count_named(elements, "script"), 0u);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(count_named(elements, "img"), 1u + 3 * 2);
  for (const Element& element : elements) {
    for (const auto& [name, value] : element.attributes) {
      EXPECT_FALSE(name.starts_with("on")) << name;
      EXPECT_EQ(value.find("javascript"), std::string::npos);
    }
  }
  EXPECT_EQ(html, full_page().html());
}

TEST(Page, AsksNothingOfTheNetwork) {
  const std::string html = full_page().html();
  EXPECT_EQ(html.find("http:"), std::string::npos);
  EXPECT_EQ(html.find("https:"), std::string::npos);
  EXPECT_EQ(html.find("url("), std::string::npos);
  EXPECT_EQ(html.find("@import"), std::string::npos);
  bool policy = false;
  for (const Element& element : elements_of(html, true)) {
    for (const char* name : {"src", "href"}) {
      const auto found = element.attributes.find(name);
      if (found == element.attributes.end()) continue;
      EXPECT_TRUE(found->second.starts_with("data:image/png;base64,") ||
                  found->second.starts_with("#"))
          << found->second.substr(0, 40);
    }
    const auto content = element.attributes.find("content");
    if (content == element.attributes.end()) continue;
    policy = policy || content->second.starts_with("default-src &#39;none&#39;") ||
             content->second.starts_with("default-src 'none'");
  }
  EXPECT_TRUE(policy);
}

TEST(Page, IdsAreUniqueAndLinksResolve) {
  std::set<std::string> ids, links, labels;
  for (const Element& element : elements_of(full_page().html(), true)) {
    const auto& attributes = element.attributes;
    if (attributes.contains("id")) {
      EXPECT_TRUE(ids.insert(attributes.at("id")).second) << attributes.at("id");
    }
    if (element.name == "a") links.insert(attributes.at("href").substr(1));
    if (element.name == "label") labels.insert(attributes.at("for"));
    if (element.name == "img") {
      EXPECT_TRUE(attributes.contains("alt"));
    }
  }
  EXPECT_EQ(links, (std::set<std::string>{"first", "second"}));
  EXPECT_EQ(labels.size(), 2u);
  for (const std::string& link : links) EXPECT_TRUE(ids.contains(link)) << link;
  for (const std::string& label : labels) EXPECT_TRUE(ids.contains(label)) << label;
}

TEST(Page, ChooserHasOneRadioAView) {
  size_t radios = 0, checked = 0, views = 0;
  std::set<std::string> names;
  for (const Element& element : elements_of(full_page().html(), true)) {
    if (element.attributes.contains("class") && element.attributes.at("class") == "view") ++views;
    if (element.name != "input") continue;
    EXPECT_EQ(element.attributes.at("type"), "radio");
    ++radios;
    checked += element.attributes.contains("checked");
    names.insert(element.attributes.at("name"));
  }
  EXPECT_EQ(radios, 2u);
  EXPECT_EQ(views, 2u);
  EXPECT_EQ(checked, 1u);
  EXPECT_EQ(names.size(), 1u);
}

TEST(Page, LightDarkNarrowAndPaper) {
  const std::string html = full_page().html();
  for (const char* part :
       {"prefers-color-scheme:dark", "color-scheme:light dark", "@media print", "max-width:40rem",
        "<html lang=\"en\">", "width=device-width", ":focus-visible", "details-content"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
}

TEST(Page, PanelsAreReadablePictures) {
  const Page page = full_page();
  const auto panels = page.panels();
  std::vector<std::string> names;
  for (const auto& [name, png] : panels) {
    names.push_back(name);
    const Image image = decode_image(png, name);
    EXPECT_GE(image.width, 80) << name;
    std::set<std::vector<uint8_t>> colors;
    for (int64_t i = 0; i < image.width * image.height; ++i) {
      const uint8_t* p = image.pixels.data() + i * image.channels;
      colors.insert({p, p + image.channels});
    }
    EXPECT_GE(colors.size(), 4u) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"curve", "left", "right", "input", "grid", "layer-0",
                                             "layer-1", "passage"}));
  // The width on the page twice, with a margin of 12.
  EXPECT_EQ(decode_image(panels[3].second, "input").width, 2 * (64 + 24));
}

TEST(PageSlow, PanelsOfAnySizeFitIntoAPicture) {
  Page page("t", "");
  Drawing drawing{.width = 30000, .height = 9000, .description = "large"};
  page.chart("large", drawing);
  const Image image = decode_image(page.panels()[0].second, "large");
  EXPECT_GT(image.width, 8000);
  EXPECT_LE(image.width * image.height, 64'000'000);
}

TEST(Page, RefusesWhatDoesNotFit) {
  Page page("t", "");
  page.section("one", "One");
  EXPECT_THROW(page.section("one", "Again"), Error);
  EXPECT_THROW(page.section("Upper case", "x"), Error);
  EXPECT_THROW(page.section("", "x"), Error);
  const Drawing drawing{.width = 10, .height = 10};
  page.chart("a", drawing);
  for (const char* name : {"a", "", "A", "../up", "a/b", "a b", "ä"}) {
    EXPECT_THROW(page.chart(name, drawing), Error) << name;
  }
  EXPECT_THROW(page.table({"", {"a", "b"}, {{{"1"}}}}), Error);
  EXPECT_THROW(page.picture("p", Image(), "", 10), Error);
  ThumbGrid wrong = grid("wrong");
  wrong.row_names.pop_back();
  EXPECT_THROW(page.thumbs(wrong), Error);
  EXPECT_THROW(page.end_details(), Error);
  page.begin_details("open");
  EXPECT_THROW(page.html(), Error);
  EXPECT_THROW(page.section("two", "Two"), Error);
  page.end_details();
  const auto elements = elements_of(page.html(), true);
  EXPECT_EQ(count_named(elements, "svg"), 1u);
}

TEST(Page, EmptyOneIsStillAPage) {
  const auto elements = elements_of(Page("", "").html(), true);
  EXPECT_EQ(count_named(elements, "h1"), 1u);
  EXPECT_TRUE(Page("", "").panels().empty());
}

TEST(Page, ColoredTextKeepsItsWords) {
  Page page("t", "");
  page.colored_text("p", {{"  two spaces\n", {1, 2, 3}, 0.5}, {"x", {}, 0, "title"}});
  const std::string html = page.html();
  EXPECT_NE(html.find(">  two spaces\n</span>"), std::string::npos);
  EXPECT_NE(html.find("rgb(1 2 3/0.23)"), std::string::npos);
  EXPECT_NE(html.find("<span title=\"title\">x</span>"), std::string::npos);
  EXPECT_EQ(ground_opacity(std::nan("")), 0);
  EXPECT_EQ(ground_opacity(-1), 0);
  EXPECT_DOUBLE_EQ(ground_opacity(7), 0.4);
}

TEST(DataUri, IsBase64) {
  // RFC 4648's padding cases, by way of pictures of different length.
  std::set<size_t> paddings;
  for (int64_t width = 1; width < 40; ++width) {
    const std::string uri = png_data_uri(Image(width, 1, 1));
    const std::string start = "data:image/png;base64,iVBORw0KGgo";
    ASSERT_EQ(uri.substr(0, start.size()), start);
    const std::string digits = uri.substr(uri.find(',') + 1);
    EXPECT_EQ(digits.size() % 4, 0u);
    paddings.insert(digits.size() - digits.find_last_not_of('=') - 1);
    EXPECT_EQ(digits.size(), (encode_png(Image(width, 1, 1)).size() + 2) / 3 * 4);
  }
  EXPECT_GE(paddings.size(), 2u);
}

}  // namespace
}  // namespace tost
