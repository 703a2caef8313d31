// What a model found again, as heat maps.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tost/kinds/language/recall_eval.h"
#include "tost/report/chart.h"

namespace tost {

// Accuracy by depth of the needle (rows) and length (columns). `scores` stand depth by depth, with
// `lengths` of each, as parse_needle_cases() gives the cases.
HeatMap needle_map(const std::vector<RecallScores>& scores, int64_t lengths);

// Accuracy by quarter of the tokens, near to far. RecallScores::distances leaves out a quarter that
// equal distances emptied; here it is NaN, so that every other keeps its place.
std::array<double, 4> by_quarter(const std::vector<RecallDistances>& distances);

// Accuracy by case (rows) and quarter of the distance to the answer; NaN as by_quarter() says.
HeatMap distance_map(const std::string& task, const std::vector<RecallScores>& scores);

}  // namespace tost
