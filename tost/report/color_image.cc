#include <algorithm>
#include <cmath>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/resize.h"
#include "tost/report/color_map.h"

namespace tost {
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
