#include "tost/study/load_bench.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

TEST(LoadBench, MeasuresAndLeavesNothing) {
  const testing::TempDir folder;
  const auto rows =
      run_load_bench({.model = "gpt_char", .depth = 1, .repeat = 1, .folder = folder.path()});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].format, "safetensors");
  for (const LoadBenchRow& row : rows) {
    EXPECT_EQ(row.parameters, rows[0].parameters);
    EXPECT_GE(row.bytes, 4 * row.parameters);
    EXPECT_GT(row.read_ms, 0);
    EXPECT_GT(row.load_ms, 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(LoadBench, RefusesBadOptions) {
  EXPECT_THROW(run_load_bench({.model = "gpt_char", .repeat = 0}), Error);
  EXPECT_THROW(run_load_bench({.model = "nothing"}), Error);
  EXPECT_THROW(run_load_bench({.model = "gpt_char", .depth = -1}), Error);
  EXPECT_THROW(run_load_bench({.model = "gpt_char", .depth = 1, .folder = "/proc/none"}), Error);
}

}  // namespace
}  // namespace tost
