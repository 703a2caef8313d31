#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/testing/errors.h"
#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/engine/run_layout.h"
#include "tost/kinds/train_run.h"
#include "tost/kinds/vision/image_runner.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/kinds/vision/train_config.h"
#include "tost/nn/state_dict.h"
#include "tost/train/run_test_util.h"

namespace tost {
namespace vision_run_test {

namespace fs = std::filesystem;
using nlohmann::json;

// With every source of randomness switched on.
json tiny_values() {
  json values = testing::tiny_vision_values();
  values.update({{"erase", 0.5}, {"randaugment", 1}, {"label_smoothing", 0.1}});
  return values;
}

struct Watcher : TrainListener {
  std::vector<std::string> messages;
  std::function<void(int64_t)> after_step;
  void on_message(const std::string& message) override { messages.push_back(message); }
  void on_step(const StepReport& report) override {
    if (after_step) after_step(report.step);
  }
};

TrainResult train(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  Watcher watcher;
  return tost::train({out, mode, values}, watcher);
}

std::string error_of(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  return testing::error_of([&] { train(out, values, mode); });
}

using testing::mentions;

void expect_same_weights(const fs::path& a, const fs::path& b) {
  for (const Weights weights : {Weights::kRaw, Weights::kEma}) {
    const StateDict x = state_dict(*load_model_file(a, weights).model);
    const StateDict y = state_dict(*load_model_file(b, weights).model);
    for (const auto& [name, value] : x) EXPECT_TRUE(torch::equal(value, y.at(name))) << name;
  }
}

fs::path latest(const fs::path& run) {
  return follow_pointer(run / kCheckpointFolder, kLatestPointer);
}

TEST(VisionRun, ResumedInTheMiddleOfAnEpochEqualsUninterrupted) {
  const testing::TempDir dir;
  const fs::path whole = dir.path() / "whole", parts = dir.path() / "parts";
  EXPECT_EQ(train(whole, tiny_values()).step, 12);
  Watcher watcher;
  std::atomic<bool> stop = false;
  watcher.after_step = [&](int64_t step) { stop = step == 4 || step == 9; };
  const TrainRun run{parts, RunMode::kNew, tiny_values()};
  EXPECT_EQ(tost::train(run, watcher, &stop).step, 4);
  stop = false;
  EXPECT_EQ(tost::train({parts, RunMode::kResume}, watcher, &stop).step, 9);
  // Other workers must not change a batch.
  const TrainResult result = train(parts, {{"workers", 3}}, RunMode::kResume);
  EXPECT_EQ(result.step, 12);
  EXPECT_FALSE(result.interrupted);
  expect_same_weights(latest(whole), latest(parts));
}

TEST(VisionRun, RunFoldersAreNotOverwrittenWithoutTheFlag) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  json values = tiny_values();
  values["max_steps"] = 2;
  EXPECT_TRUE(mentions(error_of(out, values, RunMode::kResume), "no run to resume"));
  train(out, values);
  OutputFile(out / "notes.txt").write("mine");
  EXPECT_TRUE(mentions(error_of(out, values), "--overwrite"));
  values["seed"] = 5;
  EXPECT_TRUE(
      mentions(error_of(out, values, RunMode::kResume), "seed 0 and cannot be resumed with 5"));
  train(out, values, RunMode::kOverwrite);
  EXPECT_EQ(read_file(out / "notes.txt", 100), "mine");
  EXPECT_EQ(json::parse(read_file(out / kConfigFile, 100000))["seed"], 5);
}

// Files by their path in the run folder, and what is in them.
std::map<std::string, std::string> content_of(const fs::path& run) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const std::string name = fs::relative(entry.path(), run).string();
    if (name != ".lock" && entry.is_regular_file()) {
      files[name] = read_file(entry.path(), int64_t{1} << 24);
    }
  }
  return files;
}

TEST(VisionRun, ARunIsReplacedOnlyByOneThatCanStart) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  json values = tiny_values();
  values["max_steps"] = 2;
  train(out, values);
  const auto before = content_of(out);
  const auto overwrite = [&](const json& change) {
    return error_of(out, merge(values, change), RunMode::kOverwrite);
  };
  EXPECT_TRUE(mentions(overwrite({{"data", "/nowhere"}}), "/nowhere"));
  const std::string bytes = "\xff\xfe";  // no UTF-8
  for (const std::string& name : {bytes, std::string("b")}) {
    make_directories(dir.path() / "data" / "train" / name);
    for (int i = 0; i < 20; ++i) {
      write_png((dir.path() / "data" / "train" / name / cat(i, ".png")).string(), Image(16, 16, 3));
    }
  }
  const json named{{"data", (dir.path() / "data").string()}, {"batch", 1}};
  EXPECT_TRUE(mentions(overwrite(named), "is not UTF-8")) << overwrite(named);
  EXPECT_EQ(content_of(out), before);
  // Stopped before it has saved anything.
  Watcher watcher;
  std::atomic<bool> stop = true;
  const TrainResult result = tost::train({out, RunMode::kOverwrite, values}, watcher, &stop);
  EXPECT_TRUE(result.replaced_restored);
  EXPECT_EQ(content_of(out), before);
}

TEST(VisionRun, AFolderHasOneTraining) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  json values = tiny_values();
  values["max_steps"] = 3;
  Watcher watcher;
  std::vector<std::string> refusals;
  watcher.after_step = [&](int64_t) {
    for (const RunMode mode : {RunMode::kResume, RunMode::kOverwrite}) {
      refusals.push_back(error_of(out, json::object(), mode));
    }
  };
  EXPECT_EQ(tost::train({out, RunMode::kNew, values}, watcher).step, 3);
  ASSERT_EQ(refusals.size(), 6u);
  for (const std::string& text : refusals) EXPECT_TRUE(mentions(text, "is at work in")) << text;
  EXPECT_EQ(train(out, {{"max_steps", 4}}, RunMode::kResume).step, 4);
}

TEST(VisionRun, EndsWhereItsFolderIsMovedAway) {
  for (const bool replaced : {false, true}) {
    const testing::TempDir dir;
    const fs::path out = dir.path() / "run", away = dir.path() / "away";
    json values = tiny_values();
    values["checkpoint_every_steps"] = 2;
    values["save_retries"] = 0;
    Watcher watcher;
    watcher.after_step = [&](int64_t step) {
      if (step != 5) return;
      fs::rename(out, away);
      if (replaced) make_directories(out);
    };
    const std::string message = testing::data_error_of([&] {
      tost::train({out, RunMode::kNew, values}, watcher);
    });
    EXPECT_TRUE(
        mentions(message, replaced ? "run' was replaced" : "run' was removed or moved away"))
        << message;
    EXPECT_EQ(fs::exists(out), replaced);
    if (replaced) {
      EXPECT_TRUE(fs::is_empty(out));
      fs::remove(out);
    }
    fs::rename(away, out);
    EXPECT_EQ(train(out, json::object(), RunMode::kResume).step, 12);
  }
}

TEST(VisionRun, PathsHoldFromAnyWorkingDirectory) {
  const testing::TempDir dir;
  const fs::path here = fs::current_path();
  json values = tiny_values();
  values["max_steps"] = 2;
  values["data"] = "data/";
  for (const char* name : {"a", "b"}) {
    make_directories(dir.path() / "data" / "train" / name);
    for (int i = 0; i < 20; ++i) {
      write_png((dir.path() / "data" / "train" / name / cat(i, ".png")).string(), Image(16, 16, 3));
    }
  }
  fs::current_path(dir.path());
  train("run", values);
  fs::current_path(here);
  const auto saved = [&](const fs::path& run) {
    return json::parse(read_file(run / kConfigFile, 100000)).at("data");
  };
  EXPECT_EQ(saved(dir.path() / "run"), (dir.path() / "data").string());
  EXPECT_EQ(train(dir.path() / "run", {{"max_steps", 3}}, RunMode::kResume).step, 3);
  values["data"] = "shapes";  // the name of a generated set, whatever lies there
  make_directories(dir.path() / "shapes");
  fs::current_path(dir.path());
  train("drawn", values);
  fs::current_path(here);
  EXPECT_EQ(saved(dir.path() / "drawn"), "shapes");
}

TEST(VisionRun, BadSettingsLeaveNoFolder) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run";
  for (const json& change : std::vector<json>{{{"data", (dir.path() / "nothing").string()}},
                                              {{"image_size", 30}},
                                              {{"model_options", {{"heads", 3}}}},
                                              {{"model_options", {{"head", 3}}}},
                                              {{"from", (dir.path() / "no.safetensors").string()}},
                                              {{"accumulate", 50}}}) {
    EXPECT_NE(error_of(out, merge(tiny_values(), change)), "") << change;
    EXPECT_FALSE(fs::exists(out)) << change;
  }
}

TEST(VisionRun, MissingValidationIsReported) {
  const testing::TempDir dir;
  for (const char* name : {"a", "b"}) {
    make_directories(dir.path() / "data/train" / name);
    write_png((dir.path() / "data/train" / name / "1.png").string(), Image(32, 32, 3));
  }
  const json only_train{{"data", (dir.path() / "data").string()}, {"holdout", 0}};
  EXPECT_TRUE(mentions(error_of(dir.path() / "run", merge(tiny_values(), only_train)),
                       "has training pictures alone, and holdout 0"));
}

TEST(VisionRun, FinetuningKeepsTheBodyAndRenewsTheHead) {
  const testing::TempDir dir;
  json values = tiny_values();
  values["max_steps"] = 2;
  train(dir.path() / "first", values);
  for (const char* name : {"dark", "light"}) {
    make_directories(dir.path() / "data" / "train" / name);
    make_directories(dir.path() / "data" / "test" / name);
    Image image(16, 16, 3);
    for (auto& pixel : image.pixels) pixel = *name == 'd' ? 20 : 230;
    for (int i = 0; i < 20; ++i) {
      write_png((dir.path() / "data" / "train" / name / cat(i, ".png")).string(), image);
    }
    write_png((dir.path() / "data" / "test" / name / "0.png").string(), image);
  }
  Watcher watcher;
  const json finetune{{"recipe", "small"},
                      {"from", (dir.path() / "first").string()},
                      {"data", (dir.path() / "data").string()},
                      {"lr", 0},
                      {"min_lr", 0},
                      {"warmup_lr", 0},
                      {"batch", 8},
                      {"max_steps", 1},
                      {"weight_decay", 0}};
  tost::train({dir.path() / "second", RunMode::kNew, finetune}, watcher);
  ASSERT_FALSE(watcher.messages.empty());
  EXPECT_TRUE(mentions(watcher.messages[0], "head is new")) << watcher.messages[0];
  const LoadedModel before = load_model_file(dir.path() / "first"),
                    after = load_model_file(dir.path() / "second");
  EXPECT_EQ(after.info.classes, (std::vector<std::string>{"dark", "light"}));
  EXPECT_EQ(after.info.preprocess.mean, before.info.preprocess.mean);
  const StateDict x = state_dict(*before.model), y = state_dict(*after.model);
  EXPECT_TRUE(torch::equal(x.at("blocks.0.attn.qkv.weight"), y.at("blocks.0.attn.qkv.weight")));
  EXPECT_EQ(y.at("head.weight").size(0), 2);
}

// Stopped before its first step a run has model.json but no weights. Moved away, the source is
// missed until there is a checkpoint and never again.
TEST(VisionRun, FinetuningResumedBeforeItsFirstCheckpointHasTheSourcesWeights) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first", second = dir.path() / "second";
  json values = tiny_values();
  values["max_steps"] = 2;
  train(first, values);
  values.erase("model_options");
  values.update({{"from", first.string()},
                 {"lr", 0},
                 {"min_lr", 0},
                 {"warmup_lr", 0},
                 {"weight_decay", 0},
                 {"max_steps", 1}});
  EXPECT_TRUE(mentions(error_of(second, merge(values, {{"model", "tost_nano_p4"}})), "from"));
  Watcher watcher;
  std::atomic<bool> stop = true;
  EXPECT_EQ(tost::train({second, RunMode::kNew, values}, watcher, &stop).step, 0);
  ASSERT_TRUE(follow_pointer(second / kCheckpointFolder, kLatestPointer).empty());
  fs::rename(first, dir.path() / "moved");
  EXPECT_TRUE(mentions(error_of(second, json::object(), RunMode::kResume), first.string()));
  fs::rename(dir.path() / "moved", first);
  EXPECT_EQ(train(second, json::object(), RunMode::kResume).step, 1);
  fs::rename(first, dir.path() / "moved");
  EXPECT_EQ(train(second, {{"max_steps", 2}}, RunMode::kResume).step, 2);
  // The statistics of batch normalisation change even where the learning rate is 0.
  const auto x = load_model_file(dir.path() / "moved", Weights::kRaw).model->named_parameters();
  const auto y = load_model_file(second, Weights::kRaw).model->named_parameters();
  for (const auto& p : x) EXPECT_TRUE(torch::equal(p.value(), y[p.key()])) << p.key();
  EXPECT_TRUE(mentions(error_of(second, {{"from", "other"}}, RunMode::kResume), "other"));
}

// What is logged is what scoring the run would find.
TEST(VisionRun, IsEvaluatedInItsOwnPrecision) {
  const testing::TempDir dir;
  json values = tiny_values();
  values.update({{"precision", "bf16"}, {"ema_decay", 0}, {"max_steps", 3}});
  const TrainResult result = train(dir.path() / "run", values);
  const LoadedModel loaded = load_model_file(latest(dir.path() / "run"));
  const auto loss = [&](Precision precision) {
    LoaderConfig loading;
    loading.batch_size = values["eval_batch"];
    loading.preprocess = loaded.info.preprocess;
    const DataSpec spec = data_spec(make_config(vision_train_form(), values));
    ImageLoader loader(open_image_dataset(spec, result.last_eval["split"].get<std::string>()),
                       loading);
    EvalOptions options;
    options.precision = precision;
    return evaluate(*loaded.model, loader, options)->loss();
  };
  const double logged = result.last_eval["loss"];
  EXPECT_NEAR(loss(Precision::kBf16), logged, 1e-6);
  EXPECT_GT(std::abs(loss(Precision::kFp32) - logged), 1e-5);
}

// The defaults on real data: clearly above chance (0.1) after 200 steps, and a model file whose
// score is the one that was logged.
TEST(SlowVisionRun, LearnsFashionMnist) {
  TOST_SHARED_OR_SKIP(data, "data/fashion-mnist");
  const testing::TempDir dir;
  const json values{
      {"data", data.string()}, {"max_steps", 200}, {"warmup_epochs", 0.05}, {"threads", 1}};
  const TrainResult result = train(dir.path() / "run", values);
  const LoadedModel loaded = load_model_file(dir.path() / "run");
  const double top1 = result.last_eval["top1"].get<double>();
  EXPECT_GT(top1, 0.4);
  EXPECT_EQ(result.best->value, top1);
  const DataSpec spec = data_spec(make_config(vision_train_form(), values));
  LoaderConfig loading;
  loading.preprocess = loaded.info.preprocess;
  ImageLoader loader(open_image_dataset(spec, "validation"), loading);
  EXPECT_NEAR(evaluate(*loaded.model, loader)->top1(), top1,
              1e-3);  // batches of another size round otherwise
}

}  // namespace vision_run_test
}  // namespace tost
