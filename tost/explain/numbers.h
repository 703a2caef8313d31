// Numbers of a report as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "tost/torch.h"

namespace tost {

// null for what is not finite.
nlohmann::json number_or_null(double value);

// Nested arrays of a tensor's shape with every number as `written` gives it; an undefined tensor is
// null.
nlohmann::json nested(const torch::Tensor& tensor, double (*written)(double));
// Nested arrays of a tensor's shape, rounded to `decimals`; an undefined tensor is null.
nlohmann::json rounded(const torch::Tensor& tensor, int decimals);

}  // namespace tost
