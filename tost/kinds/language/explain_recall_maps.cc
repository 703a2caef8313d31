#include "tost/kinds/language/explain_recall_maps.h"

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/text.h"

namespace tost {
namespace {

HeatMap sized(HeatMap map) {
  map.rows = std::ssize(map.row_names);
  map.columns = std::ssize(map.column_names);
  map.show_values = true;
  map.cell = 36;
  return map;
}

}  // namespace

HeatMap needle_map(const std::vector<RecallScores>& scores, int64_t lengths) {
  HeatMap map;
  map.title = "Needle: share of digits found";
  map.row_label = "depth";
  map.column_label = "bytes";
  for (int64_t i = 0; i < std::ssize(scores); ++i) {
    const RecallScores& one = scores[size_t(i)];
    if (i < lengths) map.column_names.push_back(human_number(one.size.length));
    if (i % lengths == 0) map.row_names.push_back(cat(std::lround(100 * one.size.depth), " %"));
    map.values.push_back(one.accuracy);
  }
  return sized(map);
}

std::array<double, 4> by_quarter(const std::vector<RecallDistances>& distances) {
  std::array<double, 4> values;
  values.fill(std::nan(""));
  int64_t total = 0, before = 0;
  for (const RecallDistances& part : distances) total += part.tokens;
  for (const RecallDistances& part : distances) {
    size_t quarter = 0;
    while (quarter < 3 && (total * int64_t(quarter + 1) + 3) / 4 <= before) ++quarter;
    values[quarter] = part.accuracy;
    before += part.tokens;
  }
  return values;
}

HeatMap distance_map(const std::string& task, const std::vector<RecallScores>& scores) {
  HeatMap map;
  map.title = "Share of tokens found by distance";
  const bool pairs = recall_has_pairs(task);
  map.row_label = pairs ? "length, pairs" : "length";
  map.column_label = "distance to the answer";
  map.column_names = {"near", "2nd", "3rd", "far"};
  for (const RecallScores& one : scores) {
    map.row_names.push_back(pairs ? cat(one.size.length, ", ", one.size.pairs)
                                  : cat(one.size.length));
    for (const double accuracy : by_quarter(one.distances)) map.values.push_back(accuracy);
  }
  return sized(map);
}

}  // namespace tost
