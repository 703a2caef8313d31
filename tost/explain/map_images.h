// Maps of numbers as pictures.
#pragma once

#include <cstdint>

#include "tost/io/image.h"
#include "tost/report/color_map.h"
#include "tost/torch.h"

namespace tost {

// values [N] or [rows, columns] as one pixel a value; 0 ... 1 where the ends are not finite.
Image map_image(const torch::Tensor& values, int64_t rows, int64_t columns, double low, double high,
                ColorMap map = ColorMap::kSequential);
// groups [N], from 0, in their colours.
Image groups_image(const torch::Tensor& groups, int64_t rows, int64_t columns);

}  // namespace tost
