// Image classifiers of every mixer: the checks of their configurations, and what they cost.
#pragma once

#include <cstdint>

#include "tost/engine/vision_config.h"

namespace tost {

// Throws a usage Error with the reason when no model can be built from `config`.
void validate(const VisionConfig& config);

// The multiply-adds of matrix products and convolutions in a forward pass of one image, counted as
// in the official table: with class attention's queries for every token, which this project does
// not compute (1.4 % less work at depth 12). Divide by 1e9 for GMAC.
int64_t vision_multiply_adds(const VisionConfig& config, int64_t height, int64_t width);

}  // namespace tost
