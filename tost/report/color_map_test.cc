#include "tost/report/color_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tost/base/error.h"
#include "tost/report/ink.h"

namespace tost {
namespace {

// Relative luminance (WCAG 2) and from it CIE lightness, written independently of color_map.cc.
double luminance(Rgb color) {
  const auto linear = [](uint8_t code) {
    const double s = code / 255.0;
    return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b);
}

double lightness(Rgb color) {
  const double y = luminance(color);
  return y <= 0.008856 ? 903.3 * y : 116 * std::cbrt(y) - 16;
}

double contrast(Rgb a, Rgb b) {
  const double high = std::max(luminance(a), luminance(b));
  const double low = std::min(luminance(a), luminance(b));
  return (high + 0.05) / (low + 0.05);
}

TEST(ColorMap, LightnessRisesEvenly) {
  const double first = lightness(color_of(ColorMap::kSequential, 0));
  const double last = lightness(color_of(ColorMap::kSequential, 1));
  EXPECT_LT(first, 16);
  EXPECT_GT(last, 90);
  for (int i = 0; i <= 64; ++i) {
    const double even = first + (last - first) * i / 64;
    EXPECT_NEAR(lightness(color_of(ColorMap::kSequential, i / 64.0)), even, 0.6) << i;
  }
}

TEST(ColorMap, DivergingIsNeutralInTheMiddleAndEvenOnBothSides) {
  const Rgb middle = color_of(ColorMap::kDiverging, 0.5);
  EXPECT_LE(std::max({middle.r, middle.g, middle.b}) - std::min({middle.r, middle.g, middle.b}), 8);
  EXPECT_GT(lightness(middle), 92);
  for (int i = 1; i <= 32; ++i) {
    const Rgb below = color_of(ColorMap::kDiverging, 0.5 - i / 64.0);
    const Rgb above = color_of(ColorMap::kDiverging, 0.5 + i / 64.0);
    EXPECT_NEAR(lightness(below), lightness(above), 1.0) << i;
    EXPECT_LT(lightness(below), lightness(color_of(ColorMap::kDiverging, 0.5 - (i - 1) / 64.0)));
    if (i > 6) {
      EXPECT_GT(below.b, below.r) << i;
      EXPECT_GT(above.r, above.b) << i;
    }
  }
}

TEST(ColorMap, CutsAndMarksWhatIsOutside) {
  for (const ColorMap map : {ColorMap::kSequential, ColorMap::kDiverging, ColorMap::kGrey}) {
    EXPECT_EQ(color_of(map, -3), color_of(map, 0));
    EXPECT_EQ(color_of(map, std::numeric_limits<double>::infinity()), color_of(map, 1));
    const Rgb none = color_of(map, std::nan(""));
    EXPECT_LE(std::abs(none.r - none.b), 16);
    EXPECT_NE(none, color_of(map, 0.5));
  }
  EXPECT_EQ(color_of(ColorMap::kGrey, 0.2), (Rgb{51, 51, 51}));
}

TEST(ColorMap, LabAgreesWithKnownColors) {
  EXPECT_EQ(rgb_of({100, 0, 0}), (Rgb{255, 255, 255}));
  EXPECT_EQ(rgb_of({0, 0, 0}), (Rgb{0, 0, 0}));
  // sRGB red is L 53.24, C 104.55, h 40.0.
  const Rgb red = rgb_of({53.2408, 104.5518, 39.9990});
  EXPECT_NEAR(red.r, 255, 1);
  EXPECT_NEAR(red.g, 0, 2);
  EXPECT_NEAR(red.b, 0, 2);
  EXPECT_NEAR(lightness_of({255, 0, 0}), 53.2408, 0.01);
  // Chroma beyond sRGB is lowered at the same lightness.
  for (int hue = 0; hue < 360; hue += 15) {
    EXPECT_NEAR(lightness(rgb_of({60, 200, double(hue)})), 60, 0.7) << hue;
  }
}

TEST(ColorMap, SixteenGroupsDiffer) {
  for (int64_t a = 0; a < 16; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      const Rgb x = group_color(a), y = group_color(b);
      const double apart = std::hypot(x.r - y.r, x.g - y.g, x.b - y.b);
      EXPECT_GT(apart, 24) << a << " and " << b;
    }
  }
  EXPECT_EQ(group_color(17), group_color(1));
  EXPECT_EQ(group_color(-1), group_color(15));
}

TEST(Ink, TextAndSeriesStandOutOnBothGrounds) {
  for (const InkColors& inks : {light_inks(), dark_inks()}) {
    EXPECT_GE(contrast(inks.text, inks.surface), 12);
    EXPECT_GE(contrast(inks.muted, inks.surface), 4.5);
    for (const Rgb color : inks.series) EXPECT_GE(contrast(color, inks.surface), 3) << hex(color);
  }
}

// Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
using Matrix = std::array<std::array<double, 3>, 3>;
constexpr Matrix kNormal = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix kProtanopia = {{{0.152286, 1.052583, -0.204868},
                                 {0.114503, 0.786281, 0.099216},
                                 {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeuteranopia = {{{0.367322, 0.860646, -0.227968},
                                   {0.280085, 0.672501, 0.047413},
                                   {-0.011820, 0.042940, 0.968881}}};

std::array<double, 3> lab_seen(Rgb color, const Matrix& sight) {
  const auto decode = [](double s) {
    return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
  };
  const std::array<double, 3> linear = {decode(color.r / 255.0), decode(color.g / 255.0),
                                        decode(color.b / 255.0)};
  std::array<double, 3> seen{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 3; ++k) seen[i] += sight[i][k] * linear[k];
    seen[i] = std::clamp(seen[i], 0.0, 1.0);
  }
  const double x = (0.4125 * seen[0] + 0.3576 * seen[1] + 0.1804 * seen[2]) / 0.95047;
  const double y = 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2];
  const double z = (0.0193 * seen[0] + 0.1192 * seen[1] + 0.9505 * seen[2]) / 1.08883;
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  return {116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))};
}

TEST(Ink, SeriesStayApartForColorBlindReaders) {
  for (const InkColors& inks : {light_inks(), dark_inks()}) {
    for (const Matrix& sight : {kNormal, kProtanopia, kDeuteranopia}) {
      for (size_t a = 0; a < inks.series.size(); ++a) {
        for (size_t b = 0; b < a; ++b) {
          const auto x = lab_seen(inks.series[a], sight), y = lab_seen(inks.series[b], sight);
          const double apart = std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
          EXPECT_GT(apart, 12) << hex(inks.series[a]) << " and " << hex(inks.series[b]);
        }
      }
    }
  }
}

TEST(ColorImage, MapsValuesToPixels) {
  const Image image = heat_image({0, 1, 2, std::nan("")}, 2, 2, 0, 2);
  ASSERT_EQ(image.width, 2);
  ASSERT_EQ(image.height, 2);
  ASSERT_EQ(image.channels, 3);
  const auto pixel = [&](int64_t y, int64_t x) {
    const uint8_t* p = image.row(y) + 3 * x;
    return Rgb{p[0], p[1], p[2]};
  };
  EXPECT_EQ(pixel(0, 0), color_of(ColorMap::kSequential, 0));
  EXPECT_EQ(pixel(0, 1), color_of(ColorMap::kSequential, 0.5));
  EXPECT_EQ(pixel(1, 0), color_of(ColorMap::kSequential, 1));
  EXPECT_EQ(pixel(1, 1), color_of(ColorMap::kSequential, std::nan("")));
  const Image flat = heat_image({5, 7}, 1, 2, 3, 3, ColorMap::kGrey);
  EXPECT_EQ(flat.pixels, (std::vector<uint8_t>(6, 128)));
  const Image huge = heat_image({-1e308, 1e308}, 1, 2, -1e308, 1e308, ColorMap::kGrey);
  EXPECT_EQ(huge.pixels, (std::vector<uint8_t>{0, 0, 0, 255, 255, 255}));
}

TEST(ColorImage, RefusesSizesThatDoNotFit) {
  EXPECT_THROW(heat_image({1, 2, 3}, 2, 2, 0, 1), Error);
  EXPECT_THROW(heat_image({}, 0, 0, 0, 1), Error);
  EXPECT_THROW(heat_image({1}, int64_t{1} << 32, int64_t{1} << 32, 0, 1), Error);
  EXPECT_THROW(heat_image({1}, 1, 1, std::nan(""), 1), Error);
  EXPECT_THROW(group_image({1, 2}, 1, 1), Error);
}

TEST(ColorImage, GroupsHaveTheirColors) {
  const Image image = group_image({3, 19}, 1, 2);
  const Rgb color = group_color(3);
  EXPECT_EQ(image.pixels,
            (std::vector<uint8_t>{color.r, color.g, color.b, color.r, color.g, color.b}));
}

TEST(ColorImage, BlendsByRepetition) {
  Image under(4, 2, 1);
  std::fill(under.pixels.begin(), under.pixels.end(), uint8_t{100});
  Image over(2, 1, 3);
  over.pixels = {0, 100, 200, 200, 200, 200};
  const Image mixed = blend(under, over, 0.25, false);
  ASSERT_EQ(mixed.width, 4);
  ASSERT_EQ(mixed.height, 2);
  for (int64_t y = 0; y < 2; ++y) {
    for (int64_t x = 0; x < 4; ++x) {
      const uint8_t* p = mixed.row(y) + 3 * x;
      const std::vector<int> expected =
          x < 2 ? std::vector<int>{75, 100, 125} : std::vector<int>{125, 125, 125};
      EXPECT_EQ((std::vector<int>{p[0], p[1], p[2]}), expected) << x << ' ' << y;
    }
  }
  EXPECT_EQ(blend(under, over, 0, false), to_channels(under, 3));
}

TEST(ColorImage, BlendsSmoothly) {
  Image under(8, 1, 3);
  Image over(2, 1, 1);
  over.pixels = {0, 200};
  const Image mixed = blend(under, over, 1, true);
  for (int64_t x = 1; x < 8; ++x) EXPECT_GE(mixed.row(0)[3 * x], mixed.row(0)[3 * (x - 1)]);
  EXPECT_EQ(mixed.row(0)[0], 0);
  EXPECT_EQ(mixed.row(0)[21], 200);
  const int middle = mixed.row(0)[3 * 4];
  EXPECT_GT(middle, 100);
  EXPECT_LT(middle, 140);
  EXPECT_THROW(blend(Image(), over, 1, true), Error);
  EXPECT_THROW(blend(under, over, 1.5, true), Error);
}

}  // namespace
}  // namespace tost
