// Size and work of a model, for tables.
#pragma once

#include <cstdint>

#include "tost/kinds/vision/config.h"

namespace tost {

// Multiply-adds of one forward pass of one image, counted as the official table does: matrix
// products and convolutions, class attention with queries for every token (which this project does
// not compute: 1.4 % less work at depth 12). Divide by 1e9 for GMAC.
int64_t vision_multiply_adds(const VisionConfig& config, int64_t height, int64_t width);

}  // namespace tost
