// Numbers as colours.
#pragma once

#include <cstdint>
#include <vector>

#include "tost/report/drawing.h"

namespace tost {

enum class ColorMap {
  kSequential,  // dark to bright with evenly rising lightness, for amounts
  kDiverging,   // two hues that meet in a neutral one, for signed values
  kGrey,
};

// t is cut to 0 ... 1; NaN gives a neutral grey. kDiverging is neutral at 0.5.
Rgb color_of(ColorMap map, double t);
// Distinct colours for groups 0, 1, ... (repeating after 16).
Rgb group_color(int64_t group);

// values[y * columns + x] as an RGB picture of one pixel a value; low maps to 0, high to 1. Where
// low equals high every pixel is the middle colour. Throws a usage Error where sizes do not fit.
Image heat_image(const std::vector<double>& values, int64_t rows, int64_t columns, double low,
                 double high, ColorMap map = ColorMap::kSequential);
// groups[y * columns + x] in group colours.
Image group_image(const std::vector<int64_t>& groups, int64_t rows, int64_t columns);
// `over`, enlarged to `under`'s size (bilinear where smooth, else by repetition), laid over it.
Image blend(const Image& under, const Image& over, double opacity, bool smooth);

// Colours by lightness, chroma and hue (CIELAB, D65), in which equal steps look equal.

struct Lch {
  double lightness = 0;  // 0 black ... 100 white
  double chroma = 0;
  double hue = 0;  // degrees
};

// The sRGB colour; a chroma outside sRGB is lowered until it fits, at the same lightness and hue.
Rgb rgb_of(const Lch& color);

// Lightness 0 ... 100 of an sRGB colour.
double lightness_of(Rgb color);

}  // namespace tost
