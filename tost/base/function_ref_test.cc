#include "tost/base/function_ref.h"

#include <gtest/gtest.h>

#include "tost/base/parallel.h"

namespace tost {
namespace {

int twice(function_ref<int(int)> f) {
  return f(1) + f(2);
}

TEST(FunctionRef, CallsLambdasWithState) {
  int calls = 0;
  EXPECT_EQ(twice([&](int x) { return ++calls, 10 * x; }), 30);
  EXPECT_EQ(calls, 2);
}

TEST(FunctionRef, SerialForCoversTheRangeOnce) {
  int64_t covered = 0;
  ParallelFor run = serial_for;
  run(7, [&](int64_t begin, int64_t end) { covered += end - begin; });
  run(0, [&](int64_t, int64_t) { covered += 1000; });
  EXPECT_EQ(covered, 7);
}

}  // namespace
}  // namespace tost
