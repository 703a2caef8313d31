// A whole training run on a disk that stops at every one of its system calls, and its resumption.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "tests/testing/crash_disk.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/engine/run_layout.h"
#include "tost/train/toy_task_test_util.h"
#include "tost/train/trainer.h"

namespace tost {
namespace trainer_crash_test {

namespace fs = std::filesystem;
using testing::CrashDisk;
using testing::PowerLoss;
using testing::ToyTask;

constexpr int64_t kSteps = 6;

struct Course {
  bool background = false;  // saves: then the k-th call is not always the same one
  bool rolls_back = false;  // once, from step 4 to step 2
};

LoopConfig config(Course course) {
  LoopConfig c;
  c.background_saves = course.background;
  c.rollbacks = course.rolls_back ? 1 : 0;
  c.save_retries = 0;
  c.epochs = 3;
  c.lr = 0.02;
  c.ema_decay = 0.9;
  c.log_every = 1;
  return c;
}

// Whether the run came to its end; `from` receives the step it began at.
bool train(const fs::path& run, Course course, int64_t* from = nullptr) {
  struct Listener : TrainListener {
    int64_t first = -1;
    void on_start(const StartReport& report) override { first = report.first_step; }
  } listener;
  try {
    ToyTask task(3, 4, kSteps / 3);
    if (course.rolls_back) {
      task.change_loss = [&task](int64_t, torch::Tensor loss) {
        return task.taken.back() == 3 ? loss * std::nan("") : loss;
      };
    }
    Trainer trainer(config(course), task, run, listener, nullptr);
    trainer.resume();
    const TrainResult result = trainer.train();
    if (from != nullptr) *from = listener.first;
    return result.step == kSteps;
  } catch (const Error&) {
    return false;
  }
}

// What the newest checkpoint holds.
struct Outcome {
  std::vector<torch::Tensor> tensors;
  nlohmann::json state;
};

Outcome outcome(const fs::path& run) {
  std::vector<std::string> messages;
  const auto checkpoint = CheckpointStore(run / kCheckpointFolder, 2).load_newest(messages);
  EXPECT_TRUE(messages.empty());
  Outcome all;
  if (!checkpoint) return all;
  all.state = checkpoint->state;
  for (const CheckpointPart& part : checkpoint->parts) {
    for (const auto& [name, tensor] : part.tensors) all.tensors.push_back(tensor);
  }
  return all;
}

bool same(const Outcome& a, const Outcome& b) {
  if (a.tensors.size() != b.tensors.size() || a.state != b.state) return false;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (!torch::equal(a.tensors[i], b.tensors[i])) return false;
  }
  return true;
}

// The steps of the log's lines of this kind; all lines must be JSON to the last one.
std::vector<int64_t> logged_steps(const fs::path& run, const char* kind) {
  std::vector<int64_t> steps;
  std::ifstream file(run / kMetricsFile);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    EXPECT_TRUE(object.is_object()) << line;
    if (object.is_object() && object["kind"] == kind) steps.push_back(object["step"]);
  }
  return steps;
}

// Stops the run at every stride-th of its calls from `first` on, and resumes it each time.
void stop_everywhere(Course course, int64_t first, int64_t stride, std::set<int64_t>& began) {
  at::set_num_threads(1);
  Outcome reference;
  int64_t calls = 0;
  {
    const testing::TempDir dir;
    CrashDisk disk(dir.path());
    disk.run_on();
    ASSERT_TRUE(train(dir.path(), course));
    calls = disk.calls();
    reference = outcome(dir.path());
  }
  ASSERT_GT(calls, 100);
  ASSERT_EQ(reference.state["guards"]["rollbacks"], course.rolls_back ? 1 : 0);
  for (int64_t k = first; k < calls; k += stride) {
    const auto loss = std::array{PowerLoss::kNone, PowerLoss::kDropUnsynced,
                                 PowerLoss::kDropBytes}[size_t(k / stride) % 3];
    SCOPED_TRACE(cat("stopped at call ", k, " of ", calls, ", loss ", int(loss)));
    const testing::TempDir dir;
    CrashDisk disk(dir.path());
    disk.stop_at(k);
    train(dir.path(), course);
    disk.lose_power(loss);
    int64_t from = -1;
    ASSERT_TRUE(train(dir.path(), course, &from));
    began.insert(from);
    EXPECT_TRUE(same(outcome(dir.path()), reference));
    EXPECT_EQ(logged_steps(dir.path(), "train"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(logged_steps(dir.path(), "event").size(), course.rolls_back ? 1u : 0u);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(TrainerCrashSlow, StoppedAtEveryCallAndResumedItIsTheSameRun) {
  std::set<int64_t> began;
  stop_everywhere({}, 0, 1, began);
  EXPECT_EQ(began, (std::set<int64_t>{0, 2, 4, 6})) << "every checkpoint must have been met";
}

// The checkpoint it rolls back to is written again, and later ones removed, with stops in between:
// one at each call with an even number, and one at each with an odd one.
class TrainerRollbackCrashSlow : public ::testing::TestWithParam<int64_t> {};

TEST_P(TrainerRollbackCrashSlow, StoppedAndResumedItIsTheSameRun) {
  std::set<int64_t> began;
  stop_everywhere({.rolls_back = true}, GetParam(), 2, began);
  EXPECT_EQ(began, (std::set<int64_t>{0, 2, 4, 6}));
}

INSTANTIATE_TEST_SUITE_P(Calls, TrainerRollbackCrashSlow, ::testing::Values(0, 1));

TEST(TrainerCrashSlow, TheSameWithSavesInTheBackground) {
  std::set<int64_t> began;
  stop_everywhere({.background = true}, 0, 4, began);
  EXPECT_GE(began.size(), 3u);
}

}  // namespace trainer_crash_test
}  // namespace tost
