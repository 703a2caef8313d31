// The colours of the roles of drawing.h, on light and on dark ground.
#pragma once

#include <array>
#include <string>

#include "tost/report/drawing.h"

namespace tost {

struct InkColors {
  Rgb text, muted, grid, surface;
  std::array<Rgb, kSeriesColors> series;

  Rgb of(const Paint& paint) const;  // paint must not be Ink::kNone
};
const InkColors& light_inks();
const InkColors& dark_inks();

std::string hex(Rgb color);  // "#rrggbb"
// Name of the CSS variable of a role: "--text", "--series-0", ...
std::string ink_variable(const Paint& paint);
// "--text:#rrggbb;--muted:..." for a rule of a style sheet.
std::string ink_declarations(const InkColors& inks);

}  // namespace tost
