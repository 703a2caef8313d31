// Antialiased resampling of 8-bit images, agreeing with Pillow's Image.resize.
#pragma once

#include <string>

#include "tost/io/image.h"

namespace tost {

enum class Filter { kBilinear, kBicubic };

// "bilinear", "bicubic". A usage Error for any other name offers the nearest.
Filter filter_from_name(const std::string& name);

struct Box {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;
  int64_t height = 0;
};

// The part of the image inside `box`, which must be within it (usage Error).
Image crop(const Image& image, const Box& box);

// Two passes, along rows and along columns, of a triangle or Keys cubic (a = -0.5) filter whose
// support grows with the reduction, rounding to 8 bits after each. Equal to Pillow 13's resize in
// every size tried; earlier versions take the passes in another order for some sizes and then
// differ by a few grey levels at hard edges. Deterministic.
Image resize(const Image& image, int64_t width, int64_t height, Filter filter);

// crop(image, box) and resize in one: pixels outside the box have no influence.
Image resize(const Image& image, const Box& box, int64_t width, int64_t height, Filter filter);

// crop(resize(image, width, height, filter), part), bit for bit, without the rest being made:
// memory and time follow the image and the part, however large width x height is.
Image resize_part(const Image& image, int64_t width, int64_t height, const Box& part,
                  Filter filter);

}  // namespace tost
