// Resamples 8-bit images with antialiasing, as Pillow's Image.resize does.
#pragma once

#include <string>

#include "tost/io/image.h"

namespace tost {

enum class Filter { kBilinear, kBicubic };

// The filter "bilinear" or "bicubic". Throws a usage Error, with the nearest name, for other names.
Filter filter_from_name(const std::string& name);

struct Box {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;
  int64_t height = 0;
};

// Cuts `box` out of the image. Throws a usage Error unless `box` is within the image.
Image crop(const Image& image, const Box& box);

// Resizes in two passes, along rows and along columns, by a triangle or Keys cubic (a = -0.5)
// filter whose support grows with the reduction. Each pass rounds to 8 bits. The result was equal
// to Pillow 13's in every test; earlier versions differ by a few grey levels at hard edges for some
// sizes.
Image resize(const Image& image, int64_t width, int64_t height, Filter filter);

// Resizes crop(image, box) without a copy; pixels outside the box have no influence.
Image resize(const Image& image, const Box& box, int64_t width, int64_t height, Filter filter);

// Computes only the part of crop(resize(image, width, height, filter), part), bit for bit. Memory
// and time do not depend on width x height.
Image resize_part(const Image& image, int64_t width, int64_t height, const Box& part,
                  Filter filter);

}  // namespace tost
