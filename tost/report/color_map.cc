#include "tost/report/color_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tost/report/lab.h"

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

}  // namespace tost
