#include "tost/study/sweep_run.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tost/base/error.h"
#include "tost/base/folder_lock.h"
#include "tost/io/image.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace sweep_run_test {

namespace fs = std::filesystem;
using nlohmann::json;

SweepSpec tiny() {
  SweepSpec spec;
  spec.title = "tiny";
  spec.settings = {
      {"data", "shapes"},
      {"data_side", 16},
      {"train_size", 64},
      {"test_size", 32},
      {"batch", 16},
      {"epochs", 2},
      {"threads", 1},
      {"workers", 0},
      {"model_options", {{"dim", 16}, {"depth", 1}, {"heads", 2}, {"class_blocks", 1}}}};
  spec.grid = {{"mixer", {"tssa", "none"}}};
  spec.seeds = {0, 1};
  return spec;
}

// Stops the sweep at a step of a run, and remembers what it was told.
class Watcher : public SweepListener {
 public:
  explicit Watcher(int64_t stop_run = -1, int64_t stop_step = -1)
      : stop_run_(stop_run), stop_step_(stop_step) {}
  void on_run(const SweepStep& step, int64_t number, int64_t) override {
    run_ = number;
    actions.push_back(action_name(step.action));
  }
  void on_stage(const std::string& stage) override { stages.push_back(stage); }
  void on_step(const StepReport& report, double left_s) override {
    EXPECT_GE(left_s, 0);
    if (run_ == stop_run_ && report.step == stop_step_) stop = true;
  }
  std::atomic<bool> stop = false;
  std::vector<std::string> actions, stages;

 private:
  int64_t stop_run_, stop_step_, run_ = 0;
};

// Scores and curves of all runs, without times.
json scores(const SweepResult& result) {
  json all = json::array();
  for (const SweepStep& step : result.steps) {
    json record = to_json(*step.record);
    record.erase("seconds");
    record.erase("cpu_seconds");
    record.erase("begun");  // of a configuration with paths
    all.push_back(record);
  }
  return all;
}

TEST(SlowSweepRun, InterruptedAndTakenUpGivesTheSame) {
  const testing::TempDir one, two;
  Watcher whole;
  const SweepResult expected = run_sweep(tiny(), {.out = one.path()}, whole);
  EXPECT_EQ(expected.failed, 0);
  EXPECT_FALSE(expected.interrupted);
  EXPECT_EQ(whole.actions.size(), 4u);
  ASSERT_EQ(expected.steps[0].record->state, RunState::kDone);
  EXPECT_GT(expected.steps[0].record->parameters, 1000);
  EXPECT_EQ(expected.steps[0].record->head_width, 8);
  EXPECT_FALSE(expected.steps[2].record->heads);
  EXPECT_EQ(expected.steps[0].record->curve.epochs, (std::vector<int64_t>{1, 2}));
  EXPECT_NE(expected.steps[0].record->scores.at("loss"),
            expected.steps[1].record->scores.at("loss"));

  Watcher stopped(2, 3);
  const SweepResult half = run_sweep(tiny(), {.out = two.path()}, stopped, &stopped.stop);
  EXPECT_TRUE(half.interrupted);
  EXPECT_EQ(half.steps[1].record->state, RunState::kStarted);
  EXPECT_FALSE(half.steps[2].record);
  Watcher second;
  const SweepResult rest = run_sweep(tiny(), {.out = two.path()}, second);
  EXPECT_EQ(second.actions, (std::vector<std::string>{"resume", "train", "train"}));
  EXPECT_EQ(scores(rest), scores(expected));

  Watcher third;
  {
    const FolderLock held(two.path());
    EXPECT_THROW(run_sweep(tiny(), {.out = two.path()}, third), Error);
  }
  run_sweep(tiny(), {.out = two.path()}, third);
  EXPECT_TRUE(third.actions.empty());
  // Another rule scores the models that are there.
  SweepSpec other = tiny();
  other.corruptions = SweepCorruptions{{"noise", "contrast"}, {1, 5}, "test"};
  Watcher fourth;
  const SweepResult corrupted = run_sweep(other, {.out = two.path(), .only = {"none"}}, fourth);
  EXPECT_EQ(fourth.stages, (std::vector<std::string>{"scoring", "scoring"}));
  EXPECT_EQ(corrupted.steps[2].record->corrupted.at("noise").size(), 2u);
  EXPECT_TRUE(corrupted.steps[0].record->corrupted.empty());
}

TEST(SlowSweepRun, OtherSettingsAreTrainedAgainOnlyWhenAsked) {
  const testing::TempDir dir;
  SweepSpec spec = tiny();
  spec.grid = {{"mixer", {"none"}}};
  spec.seeds = {0};
  Watcher watcher;
  run_sweep(spec, {.out = dir.path()}, watcher);
  spec.settings["epochs"] = 1;
  EXPECT_THROW(run_sweep(spec, {.out = dir.path()}, watcher), Error);
  const SweepResult again = run_sweep(spec, {.out = dir.path(), .overwrite = true}, watcher);
  EXPECT_EQ(watcher.actions.back(), "train again");
  EXPECT_EQ(again.steps[0].record->curve.epochs, (std::vector<int64_t>{1}));
}

// The run that is there has the settings of before: nothing of it may pass for the new one.
TEST(SlowSweepRun, ARunThatCouldNotBeReplacedIsNotGoneOnWith) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "out", pictures = dir.path() / "pictures";
  SweepSpec spec = tiny();
  spec.grid = {{"mixer", {"none"}}};
  spec.seeds = {0};
  spec.split = "validation";
  Watcher watcher;
  run_sweep(spec, {.out = out}, watcher);
  spec.settings["data"] = pictures.string();  // not there yet
  EXPECT_EQ(run_sweep(spec, {.out = out, .overwrite = true}, watcher).failed, 1);
  EXPECT_TRUE(fs::exists(out / "runs/none/seed-0/checkpoints/step-000000008"));
  for (const char* name : {"a", "b"}) {
    fs::create_directories(pictures / "train" / name);
    for (int i = 0; i < 20; ++i) {
      write_png((pictures / "train" / name / cat(i, ".png")).string(), Image(16, 16, 3));
    }
  }
  const SweepResult result = run_sweep(spec, {.out = out}, watcher);
  EXPECT_EQ(watcher.actions.back(), "resume");
  ASSERT_EQ(result.failed, 0) << result.steps[0].record->error;
  EXPECT_EQ(result.steps[0].record->curve.steps, (std::vector<int64_t>{2, 4}));
}

TEST(SlowSweepRun, AFailureIsRecordedAndTheOthersGoOn) {
  const testing::TempDir dir;
  SweepSpec spec = tiny();
  spec.grid.clear();
  spec.variants = {{.name = "bad", .settings = {{"model_options", {{"heads", 3}}}}},
                   {.name = "good", .settings = {{"mixer", "none"}}}};
  spec.seeds = {0};
  Watcher watcher;
  const SweepResult result = run_sweep(spec, {.out = dir.path()}, watcher);
  EXPECT_EQ(result.failed, 1);
  EXPECT_EQ(result.steps[0].record->state, RunState::kFailed);
  EXPECT_NE(result.steps[0].record->error.find("3 heads do not divide"), std::string::npos);
  EXPECT_EQ(result.steps[1].record->state, RunState::kDone);
  Watcher second;
  run_sweep(spec, {.out = dir.path()}, second);
  EXPECT_EQ(second.actions, (std::vector<std::string>{"resume"}));  // fails as before
  EXPECT_THROW(run_sweep(spec, {.out = dir.path(), .only = {"goood"}}, second), Error);
  // A model that cannot be scored need not be trained again.
  spec.split = "validation";
  const std::filesystem::path checkpoints = dir.path() / "runs/good/seed-0/checkpoints";
  std::filesystem::rename(checkpoints, dir.path() / "kept");
  const SweepResult unscored = run_sweep(spec, {.out = dir.path(), .only = {"good"}}, second);
  EXPECT_EQ(unscored.failed, 1);
  EXPECT_EQ(unscored.steps[1].record->state, RunState::kTrained);
  EXPECT_NE(unscored.steps[1].record->error.find("no checkpoint to score"), std::string::npos);
  std::filesystem::rename(dir.path() / "kept", checkpoints);
  const SweepResult scored = run_sweep(spec, {.out = dir.path(), .only = {"good"}}, second);
  EXPECT_EQ(second.actions.back(), "score");
  EXPECT_EQ(scored.steps[1].record->state, RunState::kDone);
  EXPECT_EQ(scored.steps[1].record->error, "");
}

TEST(SlowSweepRun, AFirstStageIsTrainedOnceAndGoneOnWith) {
  const testing::TempDir dir, whole;
  SweepSpec spec = tiny();
  spec.grid.clear();
  spec.seeds = {0};
  spec.variants = {{.name = "pretrained", .settings = {{"model", "tost_nano_p4"}}},
                   {.name = "scratch", .pretrained = false}};
  spec.settings["epochs"] = 1;
  spec.pretrain = json{{"data_seed", 5}, {"epochs", 2}};
  Watcher watcher(1, 2);  // in the second stage's or the first stage's second step
  const SweepResult half = run_sweep(spec, {.out = dir.path()}, watcher, &watcher.stop);
  EXPECT_TRUE(half.interrupted);
  Watcher second;
  const SweepResult result = run_sweep(spec, {.out = dir.path()}, second);
  ASSERT_EQ(result.failed, 0) << result.steps[0].record->error;
  EXPECT_EQ(second.stages, (std::vector<std::string>{"pre-training", "training", "scoring",
                                                     "training", "scoring"}));
  Watcher third;
  EXPECT_EQ(scores(run_sweep(spec, {.out = whole.path()}, third)), scores(result));
  EXPECT_NE(result.steps[0].record->scores.at("loss"), result.steps[1].record->scores.at("loss"));
  EXPECT_EQ(result.steps[0].record->pretrain.at("data_seed"), 5);
}

}  // namespace sweep_run_test
}  // namespace tost
