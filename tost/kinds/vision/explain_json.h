// A report on an image classifier as JSON: every number of every panel. Layers and heads are
// counted from 1; maps are [rows][columns]. What is not finite is null.
#pragma once

#include <nlohmann/json.hpp>

#include "tost/kinds/vision/explain_report.h"

namespace tost {

nlohmann::json to_json(const VisionReport& report);
// Of one picture alone.
nlohmann::json to_json(const PictureMaps& maps);

// The few numbers a terminal or script asks for first.
nlohmann::json summary_json(const VisionReport& report);

}  // namespace tost
