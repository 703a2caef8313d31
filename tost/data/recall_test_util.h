// What tests of generated recall tasks share.
#pragma once

#include <gtest/gtest.h>

#include "tost/data/recall_data.h"

namespace tost {

// Every distance leads from where a target is asked for to where it stands.
inline void expect_answers_where_told(const RecallSample& sample) {
  size_t asked = 0;
  for (size_t i = 0; i < sample.targets.size(); ++i) {
    if (sample.targets[i] == -1) continue;
    ASSERT_LT(asked, sample.distances.size());
    const int64_t at = int64_t(i) - sample.distances[asked++];
    ASSERT_GE(at, 0);
    EXPECT_EQ(sample.ids[size_t(at)], sample.targets[i]) << "asked at " << i;
  }
  EXPECT_EQ(asked, sample.distances.size());
}

}  // namespace tost
