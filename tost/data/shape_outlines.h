// The outlines of `shapes`, in coordinates where each fits the unit disc. Free of torch.
#pragma once

#include <string>
#include <vector>

namespace tost {

const std::vector<std::string>& shape_names();

// Whether the point (x, y), y downwards, lies inside shape number `shape`.
bool inside_shape(int shape, double x, double y);

}  // namespace tost
