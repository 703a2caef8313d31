#include "tost/report/lab.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace tost {
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

}  // namespace tost
