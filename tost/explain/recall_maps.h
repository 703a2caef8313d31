// What a model found again, as heat maps.
#pragma once

#include <string>
#include <vector>

#include "tost/eval/recall_eval.h"
#include "tost/report/chart.h"

namespace tost {

// Accuracy by depth of the needle (rows) and length (columns). `scores` stand depth by depth, with
// `lengths` of each, as parse_needle_cases() gives the cases.
HeatMap needle_map(const std::vector<RecallScores>& scores, int64_t lengths);

// Accuracy by case (rows) and quarter of the distance to the answer; NaN where a case has fewer.
HeatMap distance_map(const std::string& task, const std::vector<RecallScores>& scores);

}  // namespace tost
