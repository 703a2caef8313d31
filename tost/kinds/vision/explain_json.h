// A report on an image classifier as JSON: every number of its page (docs/explain.md). Layers and
// heads are counted from 1; maps are [rows][columns]. What is not finite is null.
#pragma once

#include <nlohmann/json.hpp>

#include "tost/kinds/vision/explain_report.h"

namespace tost {

nlohmann::json to_json(const VisionReport& report);
// Of one picture, with what the network sees of it as a PNG.
nlohmann::json to_json(const PictureMaps& maps);

}  // namespace tost
