// A report on an image classifier as JSON: every number of every panel. Layers and heads are
// counted from 1; maps are [rows][columns]. What is not finite is null.
#pragma once

#include <nlohmann/json.hpp>

#include "tost/explain/vision_report.h"

namespace tost {

nlohmann::json to_json(const VisionReport& report);

// The few numbers a terminal or script asks for first.
nlohmann::json summary_json(const VisionReport& report);

// Nested arrays of a tensor's shape, rounded to `decimals`; an undefined tensor is null.
nlohmann::json rounded(const torch::Tensor& tensor, int decimals);

}  // namespace tost
