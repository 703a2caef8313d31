#include <gtest/gtest.h>

#include "tost/kinds/vision/explain_page_parts.h"

namespace tost {
namespace {

TEST(Selection, MapsShrinkAndThenBecomeFewer) {
  const MapPlan few = plan_maps(1, 6, 4);
  EXPECT_EQ(few.side, 160);
  EXPECT_EQ(few.layers.size(), 6u);
  const MapPlan many = plan_maps(8, 12, 8);
  EXPECT_LT(many.side, 160);
  const MapPlan most = plan_maps(8, 48, 64);
  EXPECT_LT(most.layers.size(), 48u);
  EXPECT_GE(most.layers.size(), 3u);
  for (const MapPlan& plan : {few, many, most}) {
    EXPECT_GE(plan.side, 24);
    EXPECT_EQ(plan.layers.front(), 1);
  }
}

}  // namespace
}  // namespace tost
