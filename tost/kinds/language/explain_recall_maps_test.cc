#include "tost/kinds/language/explain_recall_maps.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tost {
namespace {

using Names = std::vector<std::string>;

RecallScores score(int64_t length, double depth, double accuracy) {
  RecallScores one;
  one.size = {.length = length, .pairs = 4, .depth = depth};
  one.accuracy = accuracy;
  return one;
}

TEST(RecallMaps, NeedlesByDepthAndLength) {
  const HeatMap map = needle_map({score(256, 0, 0.1), score(4096, 0, 0.2), score(1000, 0, 0.3),
                                  score(256, 1, 0.4), score(4096, 1, 0.5), score(1000, 1, 0.6)},
                                 3);
  EXPECT_EQ(map.rows, 2);
  EXPECT_EQ(map.columns, 3);
  EXPECT_EQ(map.row_names, (Names{"0 %", "100 %"}));
  EXPECT_EQ(map.column_names, (Names{"256", "4,096", "1,000"}));
  EXPECT_EQ(map.values, (std::vector<double>{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}));
}

TEST(RecallMaps, QuartersOfTheDistance) {
  RecallScores near = score(64, -1, 1);
  near.distances = {{1, 2, 8, 0.75}, {3, 9, 8, 0.5}};
  const HeatMap map = distance_map("mqar", {near});
  EXPECT_EQ(map.row_names, (Names{"64, 4"}));
  EXPECT_EQ(map.columns, 4);
  EXPECT_EQ(map.values[0], 0.75);
  EXPECT_EQ(map.values[2], 0.5);  // where the second half begins
  EXPECT_TRUE(std::isnan(map.values[1]) && std::isnan(map.values[3]));
  const auto values = by_quarter({{4, 4, 3, 0.5}, {8, 8, 1, 1.0}});
  EXPECT_EQ(values[0], 0.5);
  EXPECT_TRUE(std::isnan(values[1]) && std::isnan(values[2]));
  EXPECT_EQ(values[3], 1.0);
  EXPECT_EQ(distance_map("copying", {near}).row_names, (Names{"64"}));
  EXPECT_EQ(distance_map("selective-copying", {near}).row_names, (Names{"64, 4"}));
}

}  // namespace
}  // namespace tost
