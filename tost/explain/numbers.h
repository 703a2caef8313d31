// Numbers of a report as text, as cells of its tables and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tost/io/image.h"
#include "tost/report/color_map.h"
#include "tost/report/page.h"
#include "tost/torch.h"

namespace tost {

std::vector<double> to_vector(const torch::Tensor& values);

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

// null for what is not finite.
nlohmann::json number_or_null(double value);

// Nested arrays of a tensor's shape with every number as `written` gives it; an undefined tensor is
// null.
nlohmann::json nested(const torch::Tensor& tensor, double (*written)(double));
// Nested arrays of a tensor's shape, rounded to `decimals`; an undefined tensor is null.
nlohmann::json rounded(const torch::Tensor& tensor, int decimals);

// 1, 2, ..., count.
std::vector<double> layer_axis(size_t count);
TableCell number_cell(const std::string& text, bool strong = false);

// values [N] or [rows, columns] as one pixel a value; 0 ... 1 where the ends are not finite.
Image map_image(const torch::Tensor& values, int64_t rows, int64_t columns, double low, double high,
                ColorMap map = ColorMap::kSequential);
// groups [N], from 0, in their colours.
Image groups_image(const torch::Tensor& groups, int64_t rows, int64_t columns);

}  // namespace tost
