#include <gtest/gtest.h>

#include <functional>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/file.h"
#include "tost/base/random.h"
#include "tost/engine/run_layout.h"
#include "tost/kinds/sequence/eval.h"
#include "tost/kinds/sequence/file.h"
#include "tost/kinds/sequence/train_config.h"
#include "tost/kinds/train_run.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace sequence_run_test {

namespace fs = std::filesystem;
using nlohmann::json;

// label<TAB>text: the label is the letter that the text is full of.
fs::path write_table(const fs::path& folder, int64_t rows, const std::string& labels = "ab") {
  Random random(1);
  std::string text;
  for (int64_t i = 0; i < rows; ++i) {
    const char label = labels[size_t(random.below(int64_t(labels.size())))];
    text += std::string(1, label) + "\t";
    const int64_t length = 4 + random.below(9);
    for (int64_t j = 0; j < length; ++j) text += random.chance(0.8) ? label : 'x';
    text += "\n";
  }
  make_directories(folder);
  write_file_atomic(folder / "train.tsv", text);
  return folder / "train.tsv";
}

// Seconds on one core, with everything random switched on.
json tiny_values(const fs::path& data) {
  return {{"model", "tost_seq_tiny"},
          {"data", data.string()},
          {"data_format", "text"},
          {"holdout", 0.25},
          {"batch", 6},
          {"eval_batch", 7},
          {"length_groups", 2},
          {"epochs", 3},
          {"warmup_steps", 3},
          {"log_every", 4},
          {"threads", 1},
          {"dropout", 0.1},
          {"dim", 16},
          {"depth", 1},
          {"heads", 2}};
}

struct Watcher : TrainListener {
  std::vector<std::string> messages;
  std::function<void(int64_t)> after_step;
  void on_message(const std::string& message) override { messages.push_back(message); }
  void on_step(const StepReport& report) override {
    if (after_step) after_step(report.step);
  }
};

TrainResult run(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  Watcher watcher;
  return train({out, mode, values}, watcher);
}

std::string error_of(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  return testing::error_of([&] { run(out, values, mode); });
}

using testing::mentions;

StateDict latest_weights(const fs::path& out) {
  const fs::path folder = follow_pointer(out / kCheckpointFolder, kLatestPointer);
  return state_dict(*load_sequence_file(folder, Weights::kRaw).model);
}

void expect_same_weights(const fs::path& a, const fs::path& b) {
  const StateDict x = latest_weights(a), y = latest_weights(b);
  for (const auto& [name, value] : x) EXPECT_TRUE(torch::equal(value, y.at(name))) << name;
}

TEST(SequenceRun, ResumedInTheMiddleOfAnEpochEqualsUninterrupted) {
  const testing::TempDir dir;
  const fs::path whole = dir.path() / "whole", parts = dir.path() / "parts";
  const json values = tiny_values(write_table(dir.path() / "data", 48));  // 36: 6 steps an epoch
  EXPECT_EQ(run(whole, values).step, 18);
  Watcher watcher;
  std::atomic<bool> stop = false;
  watcher.after_step = [&](int64_t step) { stop = step == 4 || step == 12; };
  EXPECT_EQ(train({parts, RunMode::kNew, values}, watcher, &stop).step, 4);
  stop = false;
  EXPECT_EQ(train({parts, RunMode::kResume}, watcher, &stop).step, 12);
  const TrainResult result = run(parts, json::object(), RunMode::kResume);
  EXPECT_EQ(result.step, 18);
  EXPECT_FALSE(result.interrupted);
  expect_same_weights(whole, parts);
}

TEST(SequenceRun, LearnsAndWritesAModelFileOfTheLoggedScore) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run", data = write_table(dir.path() / "data", 48);
  json values = tiny_values(data);
  values.update({{"epochs", 10}, {"lr", 3e-3}, {"clip", 1}});
  const TrainResult result = run(out, values);
  EXPECT_EQ(result.metric, "top1");
  EXPECT_GT(result.best->value, 0.9);
  EXPECT_EQ(result.last_eval.at("split"), "validation");
  EXPECT_EQ(model_kind(out), "sequence");
  const LoadedSequence loaded = load_sequence_file(out);
  EXPECT_EQ(loaded.info.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(loaded.info.config.vocab, 257);
  EXPECT_EQ(loaded.info.coding.kind, "bytes");
  const SequenceSpec spec = sequence_spec(make_config(sequence_train_form(), values));
  const auto scored = open_sequence_dataset(spec, "validation");
  EXPECT_DOUBLE_EQ(evaluate(*loaded.model, *scored)->scores.top1(), result.best->value);
}

TEST(SequenceRun, BadSettingsLeaveNoFolder) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run", data = write_table(dir.path() / "data", 48);
  const auto expect_message = [&](const json& change, const std::string& words) {
    const std::string error = error_of(out, merge(tiny_values(data), change));
    EXPECT_TRUE(mentions(error, words)) << error;
    EXPECT_FALSE(fs::exists(out)) << change;
  };
  expect_message({{"data", (dir.path() / "nothing").string()}}, "nothing");
  expect_message({{"positions", "learned"}, {"model_options", {{"max_length", 5}}}},
                 "5 learned positions; cut them with max_length 5");
  expect_message({{"model_options", {{"vocab", 100}}}}, "100 tokens but");
  expect_message({{"model_options", {{"classes", 3}}}}, "3 classes but the data has 2");
  expect_message({{"model_options", {{"pairs", true}}}}, "holds single sequences");
  expect_message({{"batch", 65536}, {"dim", 4096}, {"heads", 4}}, "of memory and the machine has");
  expect_message({{"batch", 37}}, "An epoch has 0 batches");
  expect_message({{"bound_every_steps", 1}}, "bound_every_steps");
  EXPECT_TRUE(mentions(
      error_of(out, {{"from", (dir.path() / "no.safetensors").string()}, {"data", data.string()}}),
      "no.safetensors"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(SequenceRun, FineTuningNamesWhatCannotChange) {
  const testing::TempDir dir;
  const fs::path data = write_table(dir.path() / "data", 48);
  const auto trained = [&](const std::string& positions) {
    const fs::path folder = dir.path() / positions;
    run(folder,
        merge(tiny_values(data), {{"positions", positions}, {"max_length", 5}, {"max_steps", 1}}));
    return folder.string();
  };
  const std::string waves = trained("sinusoidal"), learned = trained("learned");
  const auto refused = [&](const std::string& from, const json& change) {
    const json values{{"from", from}, {"data", data.string()}, {"holdout", 0.25}, {"batch", 6}};
    return error_of(dir.path() / "x", merge(values, change));
  };
  const std::string error = refused(waves, {{"positions", "learned"}});
  EXPECT_TRUE(mentions(error, "was trained with positions \"sinusoidal\"")) << error;
  EXPECT_TRUE(mentions(refused(learned, {{"pool", "class"}}), "trained with pool"));
  EXPECT_TRUE(mentions(refused(learned, {{"model_options", {{"max_length", 9}}}}), "max_length 5"));
  const std::string longer = refused(learned, json::object());
  EXPECT_TRUE(mentions(longer, "cut them with max_length 5, or start from")) << longer;
  EXPECT_FALSE(fs::exists(dir.path() / "x"));
}

// Cut to five tokens, learned positions are enough; the cut is kept with the model.
TEST(SequenceRun, CutsLongSequences) {
  const testing::TempDir dir;
  const fs::path out = dir.path() / "run", data = write_table(dir.path() / "data", 48);
  json values = tiny_values(data);
  values.update({{"positions", "learned"}, {"max_length", 5}, {"max_steps", 1}});
  run(out, values);
  const LoadedSequence loaded = load_sequence_file(out);
  EXPECT_EQ(loaded.info.cut, 5);
  EXPECT_EQ(loaded.info.config.max_length, 5);
}

TEST(SequenceRun, FineTuningKeepsTheBodyAndRenewsTheHead) {
  const testing::TempDir dir;
  const fs::path first = dir.path() / "first", second = dir.path() / "second";
  run(first, merge(tiny_values(write_table(dir.path() / "data", 48)), {{"max_steps", 2}}));
  Watcher watcher;
  const fs::path other = write_table(dir.path() / "other", 48, "abc");
  const json still{{"from", first.string()},
                   {"data", other.string()},
                   {"data_format", "text"},
                   {"holdout", 0.25},
                   {"batch", 6},
                   {"lr", 0},
                   {"min_lr", 0},
                   {"weight_decay", 0},
                   {"max_steps", 1}};
  train({second, RunMode::kNew, still}, watcher);
  ASSERT_FALSE(watcher.messages.empty());
  EXPECT_TRUE(mentions(watcher.messages[0], "head is new")) << watcher.messages[0];
  const StateDict x = latest_weights(first), y = latest_weights(second);
  EXPECT_EQ(y.at("head.weight").size(0), 3);
  for (const auto& [name, value] : x) {
    if (name.starts_with("head.")) continue;
    EXPECT_TRUE(torch::equal(value, y.at(name))) << name;
  }
  EXPECT_TRUE(mentions(error_of(dir.path() / "x", merge(still, {{"mixer", "softmax"}})), "mixer"));
  EXPECT_FALSE(fs::exists(dir.path() / "x"));
}

}  // namespace sequence_run_test
}  // namespace tost
