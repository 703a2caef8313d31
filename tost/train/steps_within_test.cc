// Steps for a given time.
#include "tost/train/steps_within.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <tuple>

#include "tests/testing/errors.h"
#include "tost/base/path.h"
#include "tost/train/trainer_test_util.h"

namespace tost {
namespace steps_within_test {

using testing::ToyTask;

// A task whose steps take 0.1 s and whose evaluations `evaluation` s, by a clock that it moves.
struct TimedTask : ToyTask {
  explicit TimedTask(double evaluation) : ToyTask(5) {
    before_batch = [this](int64_t) { seconds += 0.1; };
    before_eval_read = [this, evaluation] { seconds += evaluation; };
  }
  SecondsClock clock() {
    return [this] { return seconds; };
  }
  double seconds = 0;
};

// Of 12 s the trial takes 0.8 s of steps and one evaluation; 14 of 15 parts of the rest are used.
TEST(StepsWithin, AsManyAsTheTimeHoldsWithTheirEvaluations) {
  LoopConfig config = testing::toy_config();  // evaluates after every epoch of 6 steps
  for (const auto& [evaluation, every_steps, expected] :
       {std::tuple{0.0, 0, 104}, {1.5, 0, 24}, {1.5, 4, 16}, {1.5, 1000, 75}, {20.0, 0, 1}}) {
    TimedTask task(evaluation);
    config.evaluate_every_steps = every_steps;
    EXPECT_EQ(steps_within(0.2, config, task, nullptr, task.clock()), expected)
        << evaluation << " " << every_steps;
  }
}

// A data set that is read in many batches is not read whole.
TEST(StepsWithin, AnEvaluationIsMeasuredInPart) {
  struct LongTask : TimedTask {
    LongTask() : TimedTask(1) {}
    int64_t evaluation_reads() const override { return 40; }
    std::optional<nlohmann::json> evaluate(const std::atomic<bool>* stop) override {
      for (int i = 0; i < 40; ++i) {
        ToyTask::evaluate(nullptr);
        if (*stop) return std::nullopt;
      }
      return nlohmann::json{{"loss", 1}};
    }
  } task;
  LoopConfig config = testing::toy_config();
  config.evaluate_every_steps = 1'000'000;
  // 63 s less 1.6 s of steps and three batches, in 14 of 15 parts, less 40 s for the last one.
  EXPECT_EQ(steps_within(1.05, config, task, nullptr, task.clock()), 145);
}

TEST(StepsWithin, DataThatDoesNotComeEndsIt) {
  for (const bool in_step : {true, false}) {
    auto* never = new std::promise<void>;  // neither is ever freed: a thread is in them
    auto* reader = new ToyTask(5);
    if (in_step) {
      reader->before_batch = [never](int64_t) { never->get_future().wait(); };
    } else {
      reader->before_eval_read = [never] { never->get_future().wait(); };
    }
    LoopConfig config = testing::toy_config();
    config.data_timeout = 0.5;
    EXPECT_THROW(steps_within(1e-3, config, *reader, nullptr), DataTimeout);
  }
}

TEST(StepsWithin, ATimeShorterThanTheTrialHoldsOneStep) {
  ToyTask task(5);
  EXPECT_EQ(steps_within(1e-9, testing::toy_config(), task, nullptr), 1);
}

TEST(StepsWithin, EndsWhereItIsStopped) {
  ToyTask task(5);
  std::atomic<bool> stop = false;
  task.before_batch = [&](int64_t number) { stop = number >= 3; };
  EXPECT_EQ(steps_within(1e6, testing::toy_config(), task, &stop), std::nullopt);
}

TEST(StepsWithin, SaysWhereItCannotMakeItsFolder) {
  ToyTask task(5);
  const std::string before = temporary_folder().string();
  ::setenv("TMPDIR", "/proc", 1);
  const std::string message =
      testing::data_error_of([&] { steps_within(0.2, testing::toy_config(), task, nullptr); });
  ::setenv("TMPDIR", before.c_str(), 1);
  EXPECT_TRUE(testing::mentions(message, "Cannot make a folder in '/proc': ")) << message;
  EXPECT_TRUE(testing::mentions(message, "; set TMPDIR to another one.")) << message;
}

}  // namespace steps_within_test
}  // namespace tost
