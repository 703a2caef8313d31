// Maps over a grid of patches as pictures.
#pragma once

#include <cstdint>

#include "tost/explain/numbers.h"
#include "tost/io/image.h"
#include "tost/kinds/vision/explain_picture_maps.h"
#include "tost/torch.h"

namespace tost {

// `image` with its longer side reduced to `side` where it is longer, in colour.
Image reduced(const Image& image, int64_t side);

// values from their own smallest to their largest, laid over the picture.
Image map_over(const Image& picture, const torch::Tensor& values, int64_t rows, int64_t columns);

}  // namespace tost
