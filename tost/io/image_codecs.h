// Declarations for image.cc and the two codecs; other code includes image.h.
#pragma once

#include "tost/io/image.h"

namespace tost {

// Throws a data Error for an image that is empty or larger than the limits.
void check_image_size(int64_t width, int64_t height, std::string_view name,
                      const ImageLimits& limits);

Image decode_jpeg(std::string_view bytes, std::string_view name, const ImageLimits& limits);
int64_t jpeg_work(std::string_view bytes, std::string_view name, const ImageLimits& limits);
int64_t png_work(std::string_view bytes, std::string_view name, const ImageLimits& limits);
Image decode_png(std::string_view bytes, std::string_view name, const ImageLimits& limits);

}  // namespace tost
