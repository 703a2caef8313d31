#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tost/kinds/language/file.h"
#include "tost/kinds/language/recall_train_config.h"
#include "tost/kinds/train_run.h"
#include "tost/nn/state_dict.h"
#include "tost/store/run_layout.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace recall_run_test {

namespace fs = std::filesystem;
using nlohmann::json;

json tiny_values(const std::string& task = "mqar") {
  return {{"recipe", task},
          {"batch", 4},
          {"max_steps", 8},
          {"vocab", 16},
          {"dim", 16},
          {"warmup_steps", 2},
          {"log_every", 2},
          {"eval_samples", 4},
          {"evaluate_every_steps", 4},
          {"threads", 1},
          {"dropout", 0.1},
          {"lengths", task == "needle" ? "96,128" : "16,32"},
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

using testing::mentions;

LoadedLanguage latest(const fs::path& out) {
  return load_language_file(follow_pointer(out / kCheckpointFolder, kLatestPointer), Weights::kRaw);
}

void expect_same_weights(const fs::path& a, const fs::path& b) {
  const StateDict x = state_dict(*latest(a).model), y = state_dict(*latest(b).model);
  for (const auto& [name, value] : x) EXPECT_TRUE(torch::equal(value, y.at(name))) << name;
}

TEST(RecallRun, ResumedEqualsUninterrupted) {
  const testing::TempDir dir;
  const fs::path whole = dir.path() / "whole", parts = dir.path() / "parts";
  const json values = merge(tiny_values(), {{"accumulate", 2}, {"mixer", "delta"}, {"conv", 2}});
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

TEST(RecallRun, WritesALanguageFileThatKnowsItsTask) {
  const testing::TempDir dir;
  for (const std::string task : {"mqar", "needle", "copying", "parity", "s3"}) {
    const fs::path out = dir.path() / task;
    const TrainResult result = run(out, merge(tiny_values(task), {{"max_steps", 1}}));
    EXPECT_EQ(result.metric, "accuracy");
    const json eval = result.last_eval;
    ASSERT_EQ(eval["cases"].size(), 2u);
    EXPECT_NEAR(
        eval["accuracy"].get<double>(),
        (eval["cases"][0]["accuracy"].get<double>() + eval["cases"][1]["accuracy"].get<double>()) /
            2,
        1e-12);
    EXPECT_EQ(eval["cases"][0].contains("pairs"), task == "mqar");
    EXPECT_EQ(model_kind(out), "language");
    const LoadedLanguage loaded = latest(out);
    EXPECT_EQ(loaded.info.training["recall"]["task"], task);
    EXPECT_EQ(loaded.info.tokenizer != nullptr, task == "needle");
    const std::map<std::string, int64_t> vocabs{{"needle", 257}, {"parity", 2}, {"s3", 6}};
    const auto vocab = vocabs.find(task);
    EXPECT_EQ(loaded.info.config.vocab, vocab == vocabs.end() ? 16 : vocab->second);
    EXPECT_EQ(loaded.info.config.block, task == "needle" ? 128 : 32);
    EXPECT_EQ(loaded.info.config.positions,
              task == "mqar" || task == "copying" ? "learned" : "none");
  }
}

TEST(RecallRun, GoesOnFromAModelFile) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first", second = dir.path() / "second";
  const json values = merge(tiny_values(), {{"positions", "none"}});
  run(first, merge(values, {{"max_steps", 1}}));
  json still = merge(tiny_values(), {{"from", first.string()},
                                     {"lr", 0},
                                     {"min_lr", 0},
                                     {"weight_decay", 0},
                                     {"max_steps", 1},
                                     {"lengths", "64"}});
  still.erase("dim");
  still.erase("dropout");
  run(second, still);
  expect_same_weights(first, second);
  EXPECT_TRUE(mentions(error_of(dir.path() / "x", merge(still, {{"mixer", "softmax"}})), "tssa"));
  EXPECT_TRUE(mentions(error_of(dir.path() / "x", merge(still, {{"vocab", 400}})), "400"));
}

TEST(RecallRun, BadSettingsLeaveNoFolder) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  for (const auto& [change, word] : std::vector<std::pair<json, std::string>>{
           {{{"lengths", "8"}}, "at least 16"},
           {{{"lengths", "64,x"}}, "lengths"},
           {{{"pairs", "1,2,3"}}, "3"},
           {{{"pairs", "8"}, {"lengths", "64"}}, "at least 18"},
           {{{"task", "mqr"}}, "mqar"},
           {{{"block", 16}}, "positions"},
           {{{"model_options", {{"vocab", 3}}}}, "vocab"},
           {{{"mixer", "softmx"}}, "softmax"},
           {{{"sample_every_steps", 5}}, "sample_every_steps"},
           {{{"tokenizer", "bytes"}}, "tokenizer"},
           {{{"recipe", "needle"}, {"haystack", "/nowhere/hay"}}, "/nowhere/hay"}}) {
    const std::string error = error_of(out, merge(tiny_values(), change));
    EXPECT_TRUE(mentions(error, word)) << change << ": " << error;
    EXPECT_FALSE(fs::exists(out)) << change;
  }
}

TEST(RecallTrainConfig, RecipesSurviveJsonBothWays) {
  const auto& form = recall_train_form();
  for (const std::string& name : names_of(form.recipes)) {
    const json once = form.fields.to_json(make_config(form, {{"recipe", name}}));
    EXPECT_EQ(once["task"], name);
    EXPECT_EQ(form.fields.to_json(make_config(form, once)), once);
  }
}

// One pair at a fixed place: the value stands next to the only key.
TEST(SlowRecallRun, LearnsATrivialCase) {
  const testing::TempDir dir;
  const TrainResult result = run(dir.path() / "run", {{"recipe", "mqar"},
                                                      {"mixer", "softmax"},
                                                      {"vocab", 16},
                                                      {"lengths", "4"},
                                                      {"pairs", "1"},
                                                      {"dim", 32},
                                                      {"max_steps", 300},
                                                      {"batch", 32},
                                                      {"warmup_steps", 10},
                                                      {"eval_samples", 200},
                                                      {"threads", 1},
                                                      {"evaluate_every_steps", 300}});
  EXPECT_GT(result.last_eval["accuracy"].get<double>(), 0.95);
}

}  // namespace recall_run_test
}  // namespace tost
