// libjpeg as its manual uses it: what the reader of pictures is compared with.
#pragma once

#include <string_view>

#include "tost/io/image.h"

namespace tost {

// Decodes an RGB JPEG at full size. Throws a data Error for anything else.
Image decode_jpeg_plainly(std::string_view bytes);

}  // namespace tost
