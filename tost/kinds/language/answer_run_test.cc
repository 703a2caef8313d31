#include <gtest/gtest.h>

#include <functional>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/data/token_task_test_util.h"
#include "tost/engine/run_layout.h"
#include "tost/kinds/kinds.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/language/train_config.h"
#include "tost/kinds/train_run.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace answer_run_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::mentions;

// Of a task of 16 and 32 tokens in dir/task.
json tiny_values(const testing::TempDir& dir) {
  const fs::path folder = dir.path() / "task";
  if (!fs::exists(folder)) testing::write_token_task(folder, {16, 32});
  return {{"data", folder.string()},
          {"batch", 4},
          {"max_steps", 8},
          {"dim", 16},
          {"warmup_steps", 2},
          {"log_every", 2},
          {"eval_samples", 4},
          {"evaluate_every_steps", 4},
          {"threads", 1},
          {"dropout", 0.1},
          {"checkpoint_every_steps", 0}};
}

struct Watcher : TrainListener {
  std::function<void(int64_t)> after_step;
  void on_step(const StepReport& report) override {
    if (after_step) after_step(report.step);
  }
};

TrainResult run(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  Watcher watcher;
  return train({out, mode, values}, watcher);
}

std::string error_of(const fs::path& out, const json& values) {
  return testing::error_of([&] { run(out, values); });
}

LoadedLanguage latest(const fs::path& out) {
  return load_language_file(follow_pointer(out / kCheckpointFolder, kLatestPointer), Weights::kRaw);
}

void expect_same_weights(const fs::path& a, const fs::path& b) {
  const StateDict x = state_dict(*latest(a).model), y = state_dict(*latest(b).model);
  for (const auto& [name, value] : x) EXPECT_TRUE(torch::equal(value, y.at(name))) << name;
}

TEST(AnswerRun, ResumedEqualsUninterrupted) {
  const testing::TempDir dir;
  const fs::path whole = dir.path() / "whole", parts = dir.path() / "parts";
  const json values = merge(tiny_values(dir), {{"accumulate", 2}, {"mixer", "delta"}, {"conv", 2}});
  const TrainResult first = run(whole, values);
  EXPECT_EQ(first.step, 8);
  Watcher watcher;
  std::atomic<bool> stop = false;
  watcher.after_step = [&](int64_t step) { stop = step == 3; };
  EXPECT_EQ(train({parts, RunMode::kNew, values}, watcher, &stop).step, 3);
  stop = false;
  const TrainResult second = train({parts, RunMode::kResume}, watcher, &stop);
  EXPECT_EQ(second.step, 8);
  expect_same_weights(whole, parts);
  EXPECT_EQ(first.last_eval["accuracy"], second.last_eval["accuracy"]);
}

TEST(AnswerRun, TheDataSelectsTheKindAndTheModel) {
  const testing::TempDir dir;
  const json values = tiny_values(dir);
  EXPECT_EQ(choose_run_kind(values).name, "task");
  EXPECT_EQ(kind_of_data(values["data"])->name, "task");
  const fs::path out = dir.path() / "run";
  const TrainResult result = run(out, merge(values, {{"max_steps", 1}}));
  EXPECT_EQ(result.metric, "accuracy");
  const json eval = result.last_eval;
  ASSERT_EQ(eval["groups"].size(), 2u);
  EXPECT_EQ(eval["groups"][1]["group"], "32");
  EXPECT_EQ(eval["groups"][1]["samples"], 4);
  EXPECT_EQ(eval["split"], "validation");
  EXPECT_EQ(model_kind(out), "language");
  const LoadedLanguage loaded = latest(out);
  EXPECT_EQ(loaded.info.training["task"], "test");
  EXPECT_EQ(loaded.info.config.vocab, 16);
  EXPECT_EQ(loaded.info.config.block, 32);
  EXPECT_EQ(loaded.info.tokenizer, nullptr);
}

TEST(AnswerRun, TasksOfBytesHaveATokenizer) {
  const testing::TempDir dir;
  testing::write_token_task(dir.path() / "bytes", {16}, 257, 4, {{"tokenizer", "bytes"}});
  const json values =
      merge(tiny_values(dir), {{"data", (dir.path() / "bytes").string()}, {"max_steps", 1}});
  run(dir.path() / "run", values);
  EXPECT_NE(latest(dir.path() / "run").info.tokenizer, nullptr);
}

TEST(AnswerRun, ContinuesFromAModelFile) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first", second = dir.path() / "second";
  run(first, merge(tiny_values(dir), {{"max_steps", 1}}));
  testing::write_token_task(dir.path() / "longer", {64});
  json still = merge(tiny_values(dir), {{"from", first.string()},
                                        {"recipe", "task"},
                                        {"lr", 0},
                                        {"min_lr", 0},
                                        {"weight_decay", 0},
                                        {"max_steps", 1},
                                        {"data", (dir.path() / "longer").string()}});
  still.erase("dim");
  still.erase("dropout");
  run(second, still);
  expect_same_weights(first, second);
  EXPECT_TRUE(mentions(error_of(dir.path() / "x", merge(still, {{"mixer", "softmax"}})), "tssa"));
  testing::write_token_task(dir.path() / "wide", {16}, 400);
  const json wide{{"data", (dir.path() / "wide").string()}};
  EXPECT_TRUE(mentions(error_of(dir.path() / "x", merge(still, wide)), "400"));
}

TEST(AnswerRun, BadSettingsLeaveNoFolder) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  for (const auto& [change, word] : std::vector<std::pair<json, std::string>>{
           {{{"recipe", "task"}, {"data", "/nowhere"}}, "holds no task"},
           {{{"recipe", "mqar"}}, "mqar"},
           {{{"model", "tost_recall"}, {"block", 8}}, "positions"},
           {{{"model_options", {{"vocab", 3}}}}, "vocab"},
           {{{"mixer", "softmx"}}, "softmax"},
           {{{"sample_every_steps", 5}}, "sample_every_steps"},
           {{{"tokenizer", "bytes"}}, "tokenizer"}}) {
    const std::string error = error_of(out, merge(tiny_values(dir), change));
    EXPECT_TRUE(mentions(error, word)) << change << ": " << error;
    EXPECT_FALSE(fs::exists(out)) << change;
  }
}

TEST(AnswerTrainConfig, RecipesSurviveJsonBothWays) {
  const auto& form = answer_train_form();
  const json once = form.fields.to_json(make_config(form, {{"recipe", "task"}}));
  EXPECT_EQ(form.fields.to_json(make_config(form, once)), once);
}

// The token after the only one that is repeated.
TEST(SlowAnswerRun, LearnsATrivialCase) {
  const testing::TempDir dir;
  testing::write_token_task(dir.path() / "task", {3}, 16, 400);
  const TrainResult result = run(dir.path() / "run", {{"data", (dir.path() / "task").string()},
                                                      {"mixer", "softmax"},
                                                      {"dim", 32},
                                                      {"max_steps", 300},
                                                      {"batch", 32},
                                                      {"warmup_steps", 10},
                                                      {"threads", 1},
                                                      {"evaluate_every_steps", 300}});
  EXPECT_GT(result.last_eval["accuracy"].get<double>(), 0.95);
}

}  // namespace answer_run_test
}  // namespace tost
