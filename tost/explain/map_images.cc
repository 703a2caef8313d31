#include "tost/explain/map_images.h"

#include <cmath>

#include "tost/explain/numbers.h"

namespace tost {

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

}  // namespace tost
