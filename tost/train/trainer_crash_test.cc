// A whole training run on a disk that stops at every one of its system calls, and its resumption.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <set>

#include "tost/base/error.h"
#include "tost/eval/run_layout.h"
#include "tost/testing/crash_disk.h"
#include "tost/testing/temp_dir.h"
#include "tost/train/toy_task.h"
#include "tost/train/trainer.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using testing::CrashDisk;
using testing::PowerLoss;
using testing::ToyTask;

constexpr int64_t kSteps = 6;

// With saves in the background the k-th call is not always the same one.
LoopConfig config(bool background) {
  LoopConfig c;
  c.background_saves = background;
  c.save_retries = 0;
  c.epochs = 3;
  c.lr = 0.02;
  c.ema_decay = 0.9;
  c.log_every = 1;
  return c;
}

// Whether the run came to its end; `from` receives the step it began at.
bool train(const fs::path& run, bool background, int64_t* from = nullptr) {
  struct Listener : TrainListener {
    int64_t first = -1;
    void on_start(const StartReport& report) override { first = report.first_step; }
  } listener;
  try {
    ToyTask task(3, 4, kSteps / 3);
    Trainer trainer(config(background), task, run, listener, nullptr);
    trainer.resume();
    const TrainResult result = trainer.train();
    if (from != nullptr) *from = listener.first;
    return result.step == kSteps;
  } catch (const Error&) {
    return false;
  }
}

std::vector<torch::Tensor> weights(const fs::path& run) {
  std::vector<std::string> messages;
  const auto checkpoint = CheckpointStore(run / kCheckpointFolder, 2).load_newest(messages);
  EXPECT_TRUE(messages.empty());
  std::vector<torch::Tensor> all;
  if (!checkpoint) return all;
  for (const CheckpointPart& part : checkpoint->parts) {
    for (const auto& [name, tensor] : part.tensors) all.push_back(tensor);
  }
  return all;
}

bool same(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return true;
}

// The steps of the log's training lines, which must be JSON to the last one.
std::vector<int64_t> logged_steps(const fs::path& run) {
  std::vector<int64_t> steps;
  std::ifstream file(run / kMetricsFile);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    EXPECT_TRUE(object.is_object()) << line;
    if (object.is_object() && object["kind"] == "train") steps.push_back(object["step"]);
  }
  return steps;
}

// Stops the run at every stride-th of its calls, and resumes it each time.
void stop_everywhere(bool background, int64_t stride, std::set<int64_t>& began) {
  at::set_num_threads(1);
  std::vector<torch::Tensor> reference;
  int64_t calls = 0;
  {
    const testing::TempDir dir;
    CrashDisk disk(dir.path());
    disk.run_on();
    ASSERT_TRUE(train(dir.path(), background));
    calls = disk.calls();
    reference = weights(dir.path());
  }
  ASSERT_GT(calls, 100);
  for (int64_t k = 0; k < calls; k += stride) {
    const auto loss = std::array{PowerLoss::kNone, PowerLoss::kDropUnsynced,
                                 PowerLoss::kDropBytes}[size_t(k / stride) % 3];
    SCOPED_TRACE(cat("stopped at call ", k, " of ", calls, ", loss ", int(loss)));
    const testing::TempDir dir;
    CrashDisk disk(dir.path());
    disk.stop_at(k);
    train(dir.path(), background);
    disk.lose_power(loss);
    int64_t from = -1;
    ASSERT_TRUE(train(dir.path(), background, &from));
    began.insert(from);
    EXPECT_TRUE(same(weights(dir.path()), reference));
    EXPECT_EQ(logged_steps(dir.path()), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(TrainerCrashSlow, StoppedAtEveryCallAndResumedItIsTheSameRun) {
  std::set<int64_t> began;
  stop_everywhere(/*background=*/false, 1, began);
  EXPECT_EQ(began, (std::set<int64_t>{0, 2, 4, 6})) << "every checkpoint must have been met";
}

TEST(TrainerCrashSlow, TheSameWithSavesInTheBackground) {
  std::set<int64_t> began;
  stop_everywhere(/*background=*/true, 4, began);
  EXPECT_GE(began.size(), 3u);
}

}  // namespace
}  // namespace tost
