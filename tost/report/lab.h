// Colours by lightness, chroma and hue (CIELAB, D65), in which equal steps look equal.
#pragma once

#include "tost/report/drawing.h"

namespace tost {

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
