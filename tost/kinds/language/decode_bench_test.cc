#include "tost/kinds/language/decode_bench.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"

namespace tost {
namespace {

TEST(DecodeBench, MeasuresEveryFigure) {
  DecodeBenchOptions options;
  options.models = {"tost_gpt_char", "gpt_char"};
  options.contexts = {3, 20};
  options.tokens = 3;
  int64_t reported = 0;
  const auto rows = run_decode_bench(options, [&](const DecodeBenchRow&) { ++reported; });
  const size_t each = 2 * all_precisions().size();  // rows of a model
  ASSERT_EQ(rows.size(), 2 * each);
  EXPECT_EQ(reported, int64_t(rows.size()));
  for (const auto& row : rows) {
    EXPECT_GT(row.step_ms, 0);
    EXPECT_GT(row.read_ms, 0);
    EXPECT_GT(row.prefill_tokens_per_s, 0);
    EXPECT_GT(row.state_bytes, 0);
  }
  // 675,088 parameters but for the positions' table and denom_bias.
  const int64_t vectors = 4 * (4 * 4 * 128 + 128),
                matrices = 675'088 - 64 * 128 - 4 * 4 * 64 - 4 * 4 - vectors / 4;
  EXPECT_EQ(rows[0].weight_bytes, 4 * matrices + vectors);
  EXPECT_EQ(rows[2].weight_bytes, 2 * matrices + vectors);
  EXPECT_EQ(rows[4].weight_bytes, matrices + vectors + 4 * (4 * (2 * 128 + 512 + 128) + 65));
  // Four bits and a scale of 16 for 32 weights; the table stays in eight.
  const int64_t table = 65 * 128;
  EXPECT_EQ(rows[6].weight_bytes, (matrices - table) * 9 / 16 + table + 4 * 65 + vectors);
  EXPECT_EQ(rows[0].state_bytes, rows[1].state_bytes);
  EXPECT_GT(rows[each + 1].state_bytes, rows[each].state_bytes);
}

TEST(DecodeBench, RefusesBadOptions) {
  const auto ignore = [](const DecodeBenchRow&) {};
  DecodeBenchOptions options;
  options.models = {"tost_gpt_char"};
  options.contexts = {3, 0};
  int64_t measured = 0;
  EXPECT_THROW(run_decode_bench(options, [&](const DecodeBenchRow&) { ++measured; }), Error);
  EXPECT_EQ(measured, 0);
  options.contexts = {64};
  EXPECT_THROW(run_decode_bench(options, ignore), Error);
  options.contexts = {3};
  options.models = {"tost_gpt_chair"};
  EXPECT_THROW(run_decode_bench(options, ignore), Error);
}

}  // namespace
}  // namespace tost
