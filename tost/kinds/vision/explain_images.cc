#include "tost/kinds/vision/explain_images.h"

#include <algorithm>

#include "tost/explain/numbers.h"
#include "tost/io/resize.h"

namespace tost {

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

}  // namespace tost
