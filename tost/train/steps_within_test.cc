// Steps for a given time.
#include "tost/train/steps_within.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tost/base/path.h"
#include "tost/testing/errors.h"
#include "tost/train/trainer_test_util.h"

namespace tost {
namespace steps_within_test {

using testing::ToyTask;

// Steps that take at least 20 ms: 12 s hold at most 560 of them, less what the trial took.
TEST(StepsWithin, NoMoreThanTheTimeHolds) {
  ToyTask task(5);
  task.before_batch = [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  const auto steps = steps_within(0.2, testing::toy_config(), task, nullptr);
  ASSERT_TRUE(steps.has_value());
  EXPECT_GE(*steps, 1);
  EXPECT_LE(*steps, 560);
}

TEST(StepsWithin, ATimeShorterThanTheTrialHoldsOneStep) {
  ToyTask task(5);
  EXPECT_EQ(steps_within(1e-9, testing::toy_config(), task, nullptr), 1);
}

TEST(StepsWithin, EndsWhereItIsStopped) {
  ToyTask task(5);
  std::atomic<bool> stop = false;
  task.before_batch = [&](int64_t given) { stop = given >= 3; };
  EXPECT_EQ(steps_within(1e6, testing::toy_config(), task, &stop), std::nullopt);
}

TEST(StepsWithin, SaysWhereItCannotMakeItsFolder) {
  ToyTask task(5);
  const std::string before = temporary_folder().string();
  ::setenv("TMPDIR", "/proc", 1);
  const std::string said =
      testing::data_error_of([&] { steps_within(0.2, testing::toy_config(), task, nullptr); });
  ::setenv("TMPDIR", before.c_str(), 1);
  EXPECT_TRUE(testing::mentions(said, "Cannot make a folder in '/proc': ")) << said;
  EXPECT_TRUE(testing::mentions(said, "; set TMPDIR to another one.")) << said;
}

}  // namespace steps_within_test
}  // namespace tost
