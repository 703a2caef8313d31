#include "tost/report/color_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tost/report/lab.h"

namespace tost {
namespace {

constexpr Rgb kNoValue = {0x8d, 0x92, 0x99};
constexpr int kSteps = 256;
using Table = std::array<Rgb, kSteps>;

double mix(double a, double b, double t) {
  return a + (b - a) * t;
}

// From dark violet over teal to light yellow: lightness rises evenly, the hue turns with it.
Table sequential() {
  Table table;
  for (int i = 0; i < kSteps; ++i) {
    const double t = i / (kSteps - 1.0);
    table[static_cast<size_t>(i)] =
        rgb_of({mix(14, 93, t), mix(48, 62, t), mix(305, 96, std::pow(t, 0.9))});
  }
  return table;
}

// Blue to light grey to red; both arms pass the same lightness at the same distance.
Table diverging() {
  Table table;
  for (int i = 0; i < kSteps; ++i) {
    const double t = i / (kSteps - 1.0);
    const double side = std::abs(2 * t - 1);
    table[static_cast<size_t>(i)] =
        rgb_of({mix(94, 34, side), 68 * std::pow(side, 0.85), t < 0.5 ? 268.0 : 38.0});
  }
  return table;
}

Table grey() {
  Table table;
  for (int i = 0; i < kSteps; ++i) {
    const auto v = static_cast<uint8_t>(i);
    table[static_cast<size_t>(i)] = {v, v, v};
  }
  return table;
}

const Table& table_of(ColorMap map) {
  static const Table kSequentialTable = sequential();
  static const Table kDivergingTable = diverging();
  static const Table kGreyTable = grey();
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
