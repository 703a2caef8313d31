#include "tost/explain/vision_images.h"

#include <algorithm>
#include <cmath>

#include "tost/base/text.h"
#include "tost/io/resize.h"

namespace tost {

std::vector<double> to_vector(const torch::Tensor& values) {
  const auto flat = values.to(torch::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

Image map_image(const torch::Tensor& values, int64_t rows, int64_t columns, double low, double high,
                ColorMap map) {
  if (!std::isfinite(low) || !std::isfinite(high)) low = 0, high = 1;
  return heat_image(to_vector(values), rows, columns, low, high, map);
}

Image groups_image(const torch::Tensor& groups, int64_t rows, int64_t columns) {
  const auto flat = groups.contiguous();
  return group_image({flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()}, rows,
                     columns);
}

Image reduced(const Image& image, int64_t side) {
  const int64_t longer = std::max(image.width, image.height);
  Image colored = to_channels(image, 3);
  if (longer <= side) return colored;
  return resize(colored, std::max<int64_t>(1, image.width * side / longer),
                std::max<int64_t>(1, image.height * side / longer), Filter::kBicubic);
}

Image map_over(const Image& picture, const torch::Tensor& values, int64_t rows, int64_t columns) {
  const double low = values.min().item<double>(), high = values.max().item<double>();
  return blend(to_channels(to_channels(picture, 1), 3), map_image(values, rows, columns, low, high),
               0.65, /*smooth=*/false);
}

std::string range_of(const torch::Tensor& values) {
  const double low = values.min().item<double>(), high = values.max().item<double>();
  int digits = 2;
  // Two digits of the difference, too.
  if (high > low && high > 0) digits += std::max(0, int(std::ceil(-std::log10(1 - low / high))));
  digits = std::min(digits, 9);
  return shown(low, digits) + " – " + shown(high, digits);
}

std::string shown(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  const bool whole = size < 1e6 && size >= std::pow(10.0, digits) - 0.5;
  return whole ? format_text("%.0f", value) : format_text("%.*g", digits, value);
}

std::string near_one(double value) {
  return value < 1 && value > 1 - 1e-3 ? "1 − " + shown(1 - value, 2) : shown(value, 4);
}

std::string with_deviation(double mean, double deviation, int64_t count, int digits) {
  if (!std::isfinite(mean) || count < 2) return shown(mean, digits);
  return shown(mean, digits) + " ± " + shown(deviation, 2);
}

std::string percent(double share, int decimals) {
  if (!std::isfinite(share)) return "–";
  return format_text("%.*f %%", decimals, 100 * share);
}

}  // namespace tost
