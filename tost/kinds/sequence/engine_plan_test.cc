#include "tost/kinds/sequence/engine_plan.h"

#include <gtest/gtest.h>

namespace tost {
namespace {

TEST(SequencePlan, GroupsHoldEveryItemInOrder) {
  const std::vector<int64_t> ids(5 * 40, 1), lengths{3, 40, 1, 7, 12};
  SequencePlan plan;
  plan.cut({ids.data(), 40, 5, 40, lengths.data()}, /*extra=*/1, /*group_rows=*/20);
  ASSERT_EQ(plan.items.size(), 5u);
  ASSERT_EQ(plan.groups.size(), 4u);
  const int64_t counts[] = {1, 1, 2, 1}, rows[] = {4, 41, 10, 13}, longest[] = {4, 41, 8, 13};
  int64_t next = 0;
  for (size_t g = 0; g < 4; ++g) {
    EXPECT_EQ(plan.groups[g].first, next);
    EXPECT_EQ(plan.groups[g].count, counts[g]);
    EXPECT_EQ(plan.groups[g].rows, rows[g]);
    EXPECT_EQ(plan.groups[g].longest, longest[g]);
    next += counts[g];
  }
  EXPECT_EQ(plan.items[3].first, 2);
  EXPECT_EQ(plan.items[3].rows, 8);
  EXPECT_EQ(plan.items[3].ids, ids.data() + 3 * 40);
}

TEST(SequencePlan, WithoutLengthsEveryItemIsAsLongAsTheBatch) {
  const std::vector<int64_t> ids(12, 1);
  SequencePlan plan;
  plan.cut({ids.data(), 4, 3, 4, nullptr}, 0, 100);
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].rows, 12);
  EXPECT_EQ(plan.items[2].first, 8);
  plan.cut({ids.data(), 4, 0, 4, nullptr}, 0, 100);
  EXPECT_TRUE(plan.groups.empty());
}

TEST(TileCut, CoversAllRowsWithinItsBounds) {
  for (const int64_t least : {128, 208}) {
    for (const int64_t most : {208, 400}) {
      for (int64_t rows = 1; rows < 6000; rows += rows < 900 ? 1 : 37) {
        const TileCut cut(rows, least, most);
        ASSERT_LE(cut.each, most) << rows;
        ASSERT_GE(cut.tiles * cut.each, rows) << rows;
        ASSERT_LT((cut.tiles - 1) * cut.each, rows) << rows;
        if (cut.tiles > 1) {
          ASSERT_EQ(cut.each % TileCut::kLeast, 0) << rows;
        }
      }
    }
  }
}

TEST(TileCut, LongSequencesDivideAmongFourThreads) {
  for (const int64_t rows : {1024, 2000, 4000, 16384}) {
    const TileCut cut(rows, 128, 400);
    EXPECT_GE(cut.tiles, 8) << rows;
    EXPECT_GE(double(rows) / double(cut.each * ((cut.tiles + 3) / 4)), 3.5) << rows;
  }
}

}  // namespace
}  // namespace tost
