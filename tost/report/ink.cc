#include "tost/report/ink.h"

namespace tost {
namespace {

// Series: found by search for eight colours of contrast 3:1 and more against the ground that stay
// as far apart as possible for normal sight and for protanopia, deuteranopia and tritanopia.
constexpr InkColors kLight = {{0x1b, 0x1e, 0x23},
                              {0x59, 0x61, 0x6c},
                              {0xe2, 0xe5, 0xe9},
                              {0xff, 0xff, 0xff},
                              {{{0x29, 0x5c, 0xcf},
                                {0xb8, 0x38, 0x4a},
                                {0x25, 0xa4, 0x7e},
                                {0x77, 0x40, 0x74},
                                {0x91, 0x99, 0x3b},
                                {0xd2, 0x74, 0xae},
                                {0x9a, 0x80, 0xfd},
                                {0x34, 0x57, 0x07}}}};
constexpr InkColors kDark = {{0xe6, 0xe8, 0xeb},
                             {0x9d, 0xa6, 0xb1},
                             {0x2d, 0x32, 0x39},
                             {0x15, 0x17, 0x1b},
                             {{{0x24, 0x80, 0xfd},
                               {0xf2, 0x9b, 0x8a},
                               {0x52, 0xe9, 0xc8},
                               {0xa8, 0x71, 0xa9},
                               {0xc5, 0xe5, 0x65},
                               {0xfe, 0xc2, 0xff},
                               {0xb0, 0xa3, 0xf8},
                               {0xa1, 0xa8, 0x1e}}}};

}  // namespace

const InkColors& light_inks() {
  return kLight;
}
const InkColors& dark_inks() {
  return kDark;
}

Rgb InkColors::of(const Paint& paint) const {
  if (paint.fixed) return paint.rgb;
  switch (paint.ink) {
    case Ink::kMuted:
      return muted;
    case Ink::kGrid:
      return grid;
    case Ink::kSurface:
      return surface;
    case Ink::kSeries:
      return series[static_cast<size_t>(paint.series % kSeriesColors + kSeriesColors) %
                    kSeriesColors];
    case Ink::kNone:
    case Ink::kText:
      break;
  }
  return text;
}

std::string hex(Rgb color) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "#";
  for (const uint8_t v : {color.r, color.g, color.b}) {
    text += kDigits[v >> 4];
    text += kDigits[v & 15];
  }
  return text;
}

std::string ink_variable(const Paint& paint) {
  switch (paint.ink) {
    case Ink::kMuted:
      return "--muted";
    case Ink::kGrid:
      return "--grid";
    case Ink::kSurface:
      return "--surface";
    case Ink::kSeries:
      return "--series-" +
             std::to_string((paint.series % kSeriesColors + kSeriesColors) % kSeriesColors);
    case Ink::kNone:
    case Ink::kText:
      break;
  }
  return "--text";
}

std::string ink_declarations(const InkColors& inks) {
  std::string css;
  for (const Ink ink : {Ink::kText, Ink::kMuted, Ink::kGrid, Ink::kSurface}) {
    css += ink_variable(Paint::of(ink)) + ":" + hex(inks.of(Paint::of(ink))) + ";";
  }
  for (int k = 0; k < kSeriesColors; ++k) {
    const Paint paint = Paint::of_series(k);
    css += ink_variable(paint) + ":" + hex(inks.of(paint)) + ";";
  }
  return css;
}

}  // namespace tost
