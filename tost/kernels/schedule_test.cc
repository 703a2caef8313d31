// Which results may be streamed.
#include "tost/kernels/schedule.h"

#include <gtest/gtest.h>

namespace tost::kernels {
namespace {

TEST(Schedule, StreamedRunsCoverWholeCacheLines) {
  alignas(64) const char memory[128] = {};
  EXPECT_TRUE(fills_lines(memory, 3072, 3072));
  EXPECT_TRUE(fills_lines(memory + 64, 64, 64));
  EXPECT_FALSE(fills_lines(memory + 32, 3072, 3072));  // every line is written in two runs
  EXPECT_FALSE(fills_lines(memory, 3072 + 32, 3072));
  EXPECT_FALSE(fills_lines(memory, 3072, 32));
  EXPECT_FALSE(fills_lines(memory, 3072, 96));
}

}  // namespace
}  // namespace tost::kernels
