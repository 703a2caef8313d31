#include <gtest/gtest.h>

#include <map>

#include "tost/base/error.h"
#include "tost/kinds/language/eval_test_util.h"
#include "tost/kinds/language/explain_report.h"

namespace tost {
namespace {

using torch::Tensor;

TextStatisticsOptions few_windows() {
  TextStatisticsOptions options;
  options.windows = {.count = 3, .length = 8, .seed = 4};
  options.least = 2;
  options.most = 100;
  return options;
}

TEST(TextStatistics, MeansByTokenAreThoseCountedByHand) {
  const auto model = testing::tiny_model("tssa", "learned", 6);
  const auto source = testing::source_of(testing::some_ids(60, 6));
  const auto options = few_windows();
  const auto found = text_statistics(*model, source, options);
  ASSERT_EQ(found.windows, 3);
  ASSERT_EQ(found.length, 8);

  std::map<int64_t, std::pair<int64_t, double>> by_hand;  // of layer 1, head 1
  double share = 0, loss = 0, entropy3 = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const auto ids = window_ids(source, options.windows, 8, i);
    const auto trace = trace_text(*model, ids);
    for (int64_t t = 0; t < 8; ++t) {
      const double p = trace.layers[1].pi[0][1][t].item<double>();
      auto& [count, sum] = by_hand[ids[0][t].item<int64_t>()];
      ++count;
      sum += p;
      share += p / 24;
    }
    loss += trace.loss.mean().item<double>() / 3;
    entropy3 += trace.layers[1].entropy[0][3].item<double>() / 3;
  }
  const auto& layer = found.layers[1];
  EXPECT_NEAR(found.loss, loss, 1e-9);
  EXPECT_NEAR(layer.share[1].item<double>(), share, 1e-9);
  EXPECT_NEAR(layer.share.sum().item<double>(), 1, 1e-6);
  EXPECT_NEAR(layer.entropy[3].item<double>(), entropy3, 1e-9);
  size_t listed = 0;
  for (const auto& [id, tally] : by_hand) {
    listed += tally.first >= 2 && tally.second / double(tally.first) > share;
  }
  ASSERT_GE(listed, 1u);
  ASSERT_EQ(layer.taken[1].size(), listed);
  double before = 1e9;
  for (const auto& row : layer.taken[1]) {
    const auto& [count, sum] = by_hand.at(row.id);
    EXPECT_EQ(row.count, count);
    EXPECT_NEAR(row.mean, sum / double(count), 1e-9);
    EXPECT_NEAR(row.against, row.mean / share, 1e-9);
    EXPECT_LE(row.mean, before);
    before = row.mean;
  }
}

TEST(TextStatistics, StrongestTokensHaveTheLargestOwnEffect) {
  const auto model = testing::tiny_model("tssa", "none", 4);
  const auto source = testing::source_of(testing::some_ids(40, 4));
  const auto found = text_statistics(*model, source, few_windows());
  const auto& rows = found.layers[0].strongest;
  ASSERT_GE(rows.size(), 1u);
  EXPECT_GE(rows.front().mean, rows.back().mean);
  EXPECT_GT(rows.front().against, 1);
  EXPECT_GT(rows.back().against, 1);  // four tokens have not all the mean
  EXPECT_LT(rows.size(), 4u);
}

TEST(TextStatistics, ShortSourcesRareTokensAndMixersWithoutMemberships) {
  const auto model = testing::tiny_model("softmax", "learned");
  auto options = few_windows();
  options.windows.length = 0;
  options.least = 1000;
  const auto found = text_statistics(*model, testing::source_of(testing::some_ids(6)), options);
  EXPECT_EQ(found.length, 5);  // the block has 12
  EXPECT_FALSE(found.layers[0].has_memberships);
  EXPECT_TRUE(found.layers[0].strongest.empty());
  EXPECT_THROW(text_statistics(*model, testing::source_of({1}), options), Error);
  options.windows.count = 0;
  EXPECT_THROW(text_statistics(*model, testing::source_of({1, 2, 3}), options), Error);
}

}  // namespace
}  // namespace tost
