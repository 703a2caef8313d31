#include "tost/report/color_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/resize.h"

namespace tost {
namespace {

constexpr Rgb kNoValue = {0x8d, 0x92, 0x99};
constexpr int kSteps = 256;
using ColorTable = std::array<Rgb, kSteps>;

double mix(double a, double b, double t) {
  return a + (b - a) * t;
}

// From dark violet over teal to light yellow. Lightness rises evenly; the hue turns the slower the
// more chroma there is, so that neighbouring steps differ equally.
ColorTable sequential() {
  const auto chroma = [](double t) {
    const double from_middle = t - 0.42;
    return 32 + (from_middle < 0 ? 80 : 95) * from_middle * from_middle;
  };
  std::array<double, kSteps> turned{};
  for (size_t i = 1; i < kSteps; ++i) {
    turned[i] = turned[i - 1] + 1 / chroma((static_cast<double>(i) - 0.5) / (kSteps - 1));
  }
  ColorTable table;
  for (size_t i = 0; i < kSteps; ++i) {
    const double t = static_cast<double>(i) / (kSteps - 1);
    table[i] = rgb_of({mix(13, 93, t), chroma(t), mix(308, 98, turned[i] / turned.back())});
  }
  return table;
}

// Blue to light grey to red; both arms pass the same lightness at the same distance.
ColorTable diverging() {
  ColorTable table;
  for (int i = 0; i < kSteps; ++i) {
    const double t = i / (kSteps - 1.0);
    const double side = std::abs(2 * t - 1);
    table[static_cast<size_t>(i)] =
        rgb_of({mix(94, 34, side), 68 * std::pow(side, 0.85), t < 0.5 ? 268.0 : 38.0});
  }
  return table;
}

ColorTable grey() {
  ColorTable table;
  for (int i = 0; i < kSteps; ++i) {
    const auto v = static_cast<uint8_t>(i);
    table[static_cast<size_t>(i)] = {v, v, v};
  }
  return table;
}

const ColorTable& table_of(ColorMap map) {
  static const ColorTable kSequentialTable = sequential();
  static const ColorTable kDivergingTable = diverging();
  static const ColorTable kGreyTable = grey();
  switch (map) {
    case ColorMap::kDiverging:
      return kDivergingTable;
    case ColorMap::kGrey:
      return kGreyTable;
    case ColorMap::kSequential:
      break;
  }
  return kSequentialTable;
}

}  // namespace

Rgb color_of(ColorMap map, double t) {
  if (std::isnan(t)) return kNoValue;
  const double place = std::clamp(t, 0.0, 1.0) * (kSteps - 1);
  return table_of(map)[static_cast<size_t>(std::lround(place))];
}

Rgb group_color(int64_t group) {
  constexpr int kGroups = 16;
  static const std::array<Rgb, kGroups> kColors = [] {
    std::array<Rgb, kGroups> colors;
    // Neighbouring groups differ by the golden angle in hue and in lightness as well.
    constexpr std::array<double, 3> kLightness = {62, 42, 80};
    for (size_t i = 0; i < kGroups; ++i) {
      colors[i] = rgb_of({kLightness[i % 3], 60, std::fmod(250 + 137.508 * double(i), 360.0)});
    }
    return colors;
  }();
  return kColors[static_cast<size_t>((group % kGroups + kGroups) % kGroups)];
}

namespace {

using Triple = std::array<double, 3>;

// IEC 61966-2-1: linear sRGB from XYZ (D65, Y of white = 1).
Triple linear_from_xyz(const Triple& v) {
  return {3.2404542 * v[0] - 1.5371385 * v[1] - 0.4985314 * v[2],
          -0.9692660 * v[0] + 1.8760108 * v[1] + 0.0415560 * v[2],
          0.0556434 * v[0] - 0.2040259 * v[1] + 1.0572252 * v[2]};
}

Triple linear_of(const Lch& color) {
  const double radians = color.hue * std::numbers::pi / 180;
  const double fy = (color.lightness + 16) / 116;
  const double fx = fy + color.chroma * std::cos(radians) / 500;
  const double fz = fy - color.chroma * std::sin(radians) / 200;
  const auto inverse = [](double f) {
    constexpr double kEdge = 6.0 / 29;
    return f > kEdge ? f * f * f : 3 * kEdge * kEdge * (f - 4.0 / 29);
  };
  return linear_from_xyz({0.95047 * inverse(fx), inverse(fy), 1.08883 * inverse(fz)});
}

bool fits(const Triple& linear) {
  return std::all_of(linear.begin(), linear.end(),
                     [](double v) { return v >= -1e-4 && v <= 1 + 1e-4; });
}

uint8_t encode(double linear) {
  const double v = std::clamp(linear, 0.0, 1.0);
  const double s = v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255 * s));
}

double decode(uint8_t code) {
  const double s = code / 255.0;
  return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
}

}  // namespace

Rgb rgb_of(const Lch& color) {
  const double lightness = std::clamp(color.lightness, 0.0, 100.0);
  double chroma = color.chroma;
  if (!fits(linear_of({lightness, chroma, color.hue}))) {
    double inside = 0, outside = chroma;
    for (int step = 0; step < 24; ++step) {
      chroma = (inside + outside) / 2;
      (fits(linear_of({lightness, chroma, color.hue})) ? inside : outside) = chroma;
    }
    chroma = inside;
  }
  const Triple linear = linear_of({lightness, chroma, color.hue});
  return {encode(linear[0]), encode(linear[1]), encode(linear[2])};
}

double lightness_of(Rgb color) {
  const double y =
      0.2126729 * decode(color.r) + 0.7151522 * decode(color.g) + 0.0721750 * decode(color.b);
  return y > 216.0 / 24389 ? 116 * std::cbrt(y) - 16 : y * 24389 / 27;
}

namespace {

void check_size(std::string_view what, size_t values, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1 || rows > (int64_t{1} << 31) / columns ||
      static_cast<int64_t>(values) != rows * columns) {
    fail_usage(what, ": ", values, " values do not fill ", rows, " rows of ", columns,
               " columns; give rows x columns values.");
  }
}

void put(Image& image, size_t pixel, Rgb color) {
  image.pixels[3 * pixel] = color.r;
  image.pixels[3 * pixel + 1] = color.g;
  image.pixels[3 * pixel + 2] = color.b;
}

Image repeated(const Image& image, int64_t width, int64_t height) {
  Image large(width, height, image.channels);
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* from = image.row(y * image.height / height);
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t* pixel = from + x * image.width / width * image.channels;
      std::copy_n(pixel, image.channels, large.row(y) + x * image.channels);
    }
  }
  return large;
}

}  // namespace

Image heat_image(const std::vector<double>& values, int64_t rows, int64_t columns, double low,
                 double high, ColorMap map) {
  check_size("heat_image", values.size(), rows, columns);
  if (!std::isfinite(low) || !std::isfinite(high)) {
    fail_usage("heat_image: the ends of the colours are ", low, " and ", high,
               "; give two finite numbers.");
  }
  Image image(columns, rows, 3);
  // Halves, since the difference of two huge numbers is not finite.
  const double half_span = high / 2 - low / 2;
  for (size_t i = 0; i < values.size(); ++i) {
    const double t = half_span == 0 ? 0.5 : (values[i] / 2 - low / 2) / half_span;
    put(image, i, color_of(map, std::isnan(values[i]) ? values[i] : t));
  }
  return image;
}

Image group_image(const std::vector<int64_t>& groups, int64_t rows, int64_t columns) {
  check_size("group_image", groups.size(), rows, columns);
  Image image(columns, rows, 3);
  for (size_t i = 0; i < groups.size(); ++i) put(image, i, group_color(groups[i]));
  return image;
}

Image blend(const Image& under, const Image& over, double opacity, bool smooth) {
  if (under.pixels.empty() || over.pixels.empty()) {
    fail_usage("blend: a picture of ", under.width, " x ", under.height, " and one of ", over.width,
               " x ", over.height, " pixels; both need at least one pixel.");
  }
  if (!(opacity >= 0 && opacity <= 1)) {
    fail_usage("blend: the opacity is ", opacity, "; give a number from 0 to 1.");
  }
  Image result = to_channels(under, 3);
  const Image top = to_channels(over, 3);
  const Image layer = smooth ? resize(top, under.width, under.height, Filter::kBilinear)
                             : repeated(top, under.width, under.height);
  for (size_t i = 0; i < result.pixels.size(); ++i) {
    const double mixed = (1 - opacity) * result.pixels[i] + opacity * layer.pixels[i];
    result.pixels[i] = static_cast<uint8_t>(std::lround(mixed));
  }
  return result;
}

}  // namespace tost
