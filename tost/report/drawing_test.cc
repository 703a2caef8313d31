#include "tost/report/drawing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tost/base/error.h"
#include "tost/report/ink.h"
#include "tost/report/well_formed_test_util.h"

namespace tost {
namespace {

Drawing every_shape() {
  Drawing drawing{.width = 100, .height = 60, .description = "all \"shapes\" & <more>"};
  drawing.shapes = {RectShape{.x = 10,
                              .y = 10,
                              .width = 20,
                              .height = 10,
                              .fill = Paint::of_rgb({200, 30, 40}),
                              .title = "a </title> b"},
                    PathShape{.points = {{0, 50}, {100, 50}},
                              .stroke = Paint::of(Ink::kText),
                              .width = 4,
                              .dashed = true},
                    CircleShape{.center = {60, 20}, .radius = 8, .fill = Paint::of_series(9, 0.5)},
                    TextShape{.at = {50, 40},
                              .text = "Π <b>\xFF",
                              .anchor = Anchor::kMiddle,
                              .bold = true,
                              .degrees = -30,
                              .mono = true}};
  Image image(2, 1, 1);
  image.pixels = {0, 255};
  drawing.shapes.push_back(ImageShape{.x = 80, .y = 10, .width = 20, .height = 10, .image = image});
  return drawing;
}

Rgb pixel(const Image& image, int64_t x, int64_t y) {
  const uint8_t* p = image.row(y) + 3 * x;
  return {p[0], p[1], p[2]};
}

TEST(Drawing, SvgIsWellFormedAndFollowsThePage) {
  const std::string svg = to_svg(every_shape());
  const auto elements = testing::elements_of(svg);
  ASSERT_FALSE(elements.empty());
  EXPECT_EQ(elements[0].name, "svg");
  EXPECT_EQ(elements[0].attributes.at("role"), "img");
  EXPECT_EQ(elements[0].attributes.at("viewBox"), "0 0 100 60");
  EXPECT_EQ(elements[0].attributes.at("aria-label"), "all &quot;shapes&quot; &amp; &lt;more&gt;");
  for (const char* name : {"rect", "path", "circle", "text", "image"}) {
    EXPECT_EQ(testing::count_named(elements, name), 1u) << name;
  }
  EXPECT_NE(svg.find("fill=\"#c81e28\""), std::string::npos);
  EXPECT_NE(svg.find("fill=\"var(--series-1)\" fill-opacity=\"0.5\""), std::string::npos);
  EXPECT_NE(svg.find("<title>a &lt;/title&gt; b</title>"), std::string::npos);
  EXPECT_EQ(svg.find("http"), std::string::npos);
  EXPECT_EQ(svg, to_svg(every_shape()));
}

TEST(Drawing, SvgFilesStandAlone) {
  const std::string adaptive = to_svg_file(every_shape());
  testing::elements_of(adaptive, true);
  EXPECT_NE(adaptive.find("xmlns=\"http://www.w3.org/2000/svg\""), std::string::npos);
  EXPECT_NE(adaptive.find("prefers-color-scheme:dark"), std::string::npos);
  const std::string light = to_svg_file(every_shape(), false);
  testing::elements_of(light);
  EXPECT_EQ(light.find("var("), std::string::npos);
  EXPECT_NE(light.find(hex(light_inks().series[1])), std::string::npos);
}

TEST(Drawing, PictureAgreesWithTheShapes) {
  const Image image = to_image(every_shape(), 2);
  EXPECT_EQ(image.width, 200);
  EXPECT_EQ(image.height, 120);
  EXPECT_EQ(pixel(image, 40, 30), (Rgb{200, 30, 40}));
  EXPECT_EQ(pixel(image, 2, 2), light_inks().surface);
  EXPECT_EQ(pixel(image, 4, 100), light_inks().text);  // the line
  EXPECT_EQ(pixel(image, 162, 30), (Rgb{0, 0, 0}));    // pixels stay squares
  EXPECT_EQ(pixel(image, 178, 30), (Rgb{0, 0, 0}));
  EXPECT_EQ(pixel(image, 182, 30), (Rgb{255, 255, 255}));
  const Rgb series = light_inks().series[1], disc = pixel(image, 120, 40);
  EXPECT_NEAR(disc.r, (series.r + 255) / 2.0, 1.5);
  EXPECT_NEAR(disc.b, (series.b + 255) / 2.0, 1.5);
  EXPECT_EQ(decode_image(encode_png(image), "picture"), image);
  EXPECT_EQ(to_image(every_shape(), 2), image);
}

TEST(Drawing, TextIsSetInPictures) {
  Drawing drawing{.width = 100, .height = 30};
  drawing.shapes.push_back(TextShape{.at = {50, 20}, .text = "HHHH", .anchor = Anchor::kMiddle});
  const Image image = to_image(drawing, 1);
  int64_t left = 100, right = 0;
  for (int64_t y = 0; y < 30; ++y) {
    for (int64_t x = 0; x < 100; ++x) {
      if (pixel(image, x, y) == light_inks().surface) continue;
      left = std::min(left, x);
      right = std::max(right, x);
    }
  }
  if (right == 0) GTEST_SKIP() << "no font is installed";
  EXPECT_NEAR(static_cast<double>(left + right) / 2, 50, 2);
  EXPECT_LE(static_cast<double>(right - left), text_width("HHHH", 12) + 4);
}

TEST(Drawing, RefusesWhatCannotBeDrawn) {
  Drawing drawing{.width = 10, .height = 10};
  drawing.shapes.push_back(CircleShape{.center = {std::nan(""), 0}});
  EXPECT_THROW(to_svg(drawing), Error);
  EXPECT_THROW(to_image(drawing), Error);
  drawing.shapes = {PathShape{.points = {{0, 1.0 / 0.0}}, .stroke = Paint::of(Ink::kText)}};
  EXPECT_THROW(to_svg(drawing), Error);
  EXPECT_THROW(to_image(drawing), Error);
  drawing.shapes.clear();
  EXPECT_THROW(to_image(drawing, 0), Error);
  EXPECT_THROW(to_image(drawing, 2000), Error);
  EXPECT_THROW(to_image(drawing, std::nan("")), Error);
  EXPECT_THROW(to_image(Drawing{.width = 0, .height = 5}), Error);
  EXPECT_EQ(to_image(drawing, 1).width, 10);
}

}  // namespace
}  // namespace tost
