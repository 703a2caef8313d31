// Maps over a grid of patches as pictures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tost/explain/picture_maps.h"
#include "tost/io/image.h"
#include "tost/report/color_map.h"
#include "tost/torch.h"

namespace tost {

std::vector<double> to_vector(const torch::Tensor& values);

// values [N] or [rows, columns] as one pixel a value; 0 ... 1 where the ends are not finite.
Image map_image(const torch::Tensor& values, int64_t rows, int64_t columns, double low, double high,
                ColorMap map = ColorMap::kSequential);
// groups [N], from 0, in their colours.
Image groups_image(const torch::Tensor& groups, int64_t rows, int64_t columns);

// `image` with its longer side reduced to `side` where it is longer, in colour.
Image reduced(const Image& image, int64_t side);

// values from their own smallest to their largest, laid over the picture.
Image map_over(const Image& picture, const torch::Tensor& values, int64_t rows, int64_t columns);

// "0.12 – 0.40", with as many digits as distinguish the ends.
std::string range_of(const torch::Tensor& values);
// `digits` significant digits, all those before the point for numbers below a million; "–" for what
// is not finite.
std::string shown(double value, int digits = 3);
// Numbers up to 1, "1 − 2.3e-06" where they are so close to it that digits would not show it.
std::string near_one(double value);
// "0.64 ± 0.11"; without the deviation where it is of fewer than two values.
std::string with_deviation(double mean, double deviation, int64_t count, int digits = 3);
std::string percent(double share, int decimals = 1);

}  // namespace tost
