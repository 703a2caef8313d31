// A drawing as a list of shapes, written as SVG that follows the page's colours, or as a picture.
// Free of torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tost/io/image.h"

namespace tost {

struct Rgb {
  uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Rgb&) const = default;
};

// What a colour is for. Light and dark pages, and pictures, each have their own value; series
// colours stay apart for colour-blind readers on both grounds.
enum class Ink { kNone, kText, kMuted, kGrid, kSurface, kSeries };
inline constexpr int kSeriesColors = 8;

// Either a role (with the number of the series for kSeries, taken modulo kSeriesColors) or, when
// `fixed`, one colour everywhere (cells of a heat map).
struct Paint {
  Ink ink = Ink::kNone;
  int series = 0;
  double opacity = 1;
  bool fixed = false;
  Rgb rgb{};

  static Paint of(Ink ink, double opacity = 1) { return {.ink = ink, .opacity = opacity}; }
  static Paint of_series(int series, double opacity = 1) {
    return {.ink = Ink::kSeries, .series = series, .opacity = opacity};
  }
  static Paint of_rgb(Rgb rgb) { return {.fixed = true, .rgb = rgb}; }
  bool operator==(const Paint&) const = default;
};

struct Point {
  double x = 0, y = 0;
};

// Units are CSS pixels, y downwards.
struct PathShape {
  std::vector<Point> points{};
  bool closed = false;
  Paint stroke{}, fill{};
  double width = 1.5;
  bool dashed = false;
};
struct CircleShape {
  Point center{};
  double radius = 3;
  Paint stroke{}, fill{};
  std::string title{};  // shown on hover; "" none
};
struct RectShape {
  double x = 0, y = 0, width = 0, height = 0;
  Paint stroke{}, fill{};
  std::string title{};
};
inline constexpr double kMonoWidth = 0.602;
enum class Anchor { kStart, kMiddle, kEnd };
struct TextShape {
  Point at{};          // of the baseline
  std::string text{};  // UTF-8, escaped by the writer
  double size = 12;
  Anchor anchor = Anchor::kStart;
  Paint paint = Paint::of(Ink::kText);
  bool bold = false;
  double degrees = 0;  // clockwise, around `at`
  bool mono = false;   // fixed width: kMonoWidth * size a character, spaces kept
};
struct ImageShape {
  double x = 0, y = 0, width = 0, height = 0;
  Image image{};
  bool smooth = false;  // false: pixels stay squares when enlarged
  std::string title{};
};
using Shape = std::variant<PathShape, CircleShape, RectShape, TextShape, ImageShape>;

struct Drawing {
  double width = 0, height = 0;
  std::string description{};  // what it shows, for readers who cannot see it
  std::vector<Shape> shapes{};
};

// Adds `part` to a drawing, its upper left corner at `at`; the drawing grows to hold it.
void place(Drawing& whole, Drawing part, Point at);

// One <svg> element for use inside a page: role="img" with the description, size from viewBox (so
// that it shrinks with the page), colours as CSS variables (see page.h). Deterministic; numbers
// that are not finite are a usage Error.
std::string to_svg(const Drawing& drawing);

// A file of its own, with the light colours, or those of the reader's system where `adaptive`.
std::string to_svg_file(const Drawing& drawing, bool adaptive = true);

// Pixels on the light ground, `scale` for one unit. Throws a usage Error above 64 million pixels.
Image to_image(const Drawing& drawing, double scale = 2);

// Width in units of `text` at `size`, estimated for a wide sans-serif face.
double text_width(std::string_view text, double size, bool bold = false);

// `text` where it is no wider than `width`, else its beginning and an ellipsis.
std::string fit_text(std::string_view text, double size, double width, bool bold = false);

}  // namespace tost
