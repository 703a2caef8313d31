// Coding rates of every layer while a model trains, in both kinds of run.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/engine/run_layout.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/train_run.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/nn/state_dict.h"

namespace tost {
namespace bound_log_test {

namespace fs = std::filesystem;
using nlohmann::json;

json vision_values() {
  return {{"data", "shapes"},
          {"data_side", 16},
          {"train_size", 48},
          {"test_size", 40},
          {"batch", 8},
          {"max_steps", 6},
          {"drop_path", 0.2},
          {"mixup", 0.4},
          {"ema_decay", 0.9},
          {"threads", 1},
          {"log_every", 2},
          {"mixer", "tssa-tied"},
          {"model_options", {{"dim", 16}, {"depth", 2}, {"heads", 2}, {"registers", 1}}}};
}

json language_values(const testing::TempDir& dir) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += i % 3 == 0 ? "one two\n" : "three four ";
  write_file_atomic(dir.path() / "text.txt", text);
  return {{"model", "tost_gpt_char"},
          {"data", (dir.path() / "text.txt").string()},
          {"tokenizer", "chars"},
          {"batch", 3},
          {"max_steps", 6},
          {"evaluate_every_steps", 3},
          {"eval_batches", 1},
          {"threads", 1},
          {"dropout", 0.1},
          {"block", 16},
          {"dim", 16},
          {"depth", 3},
          {"heads", 2},
          {"hybrid_every", 2}};
}

struct Silent : TrainListener {};

void run(const fs::path& out, const json& values, RunMode mode = RunMode::kNew) {
  Silent listener;
  train({out, mode, values}, listener);
}

json merged(json values, const json& change) {
  values.update(change);
  return values;
}

std::vector<json> bound_lines(const fs::path& out) {
  std::ifstream file(out / kMetricsFile);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) {
    const json object = json::parse(line);
    if (object["kind"] == "bound") lines.push_back(object);
  }
  return lines;
}

void expect_steps(const std::vector<json>& lines, const std::vector<int64_t>& steps) {
  ASSERT_EQ(lines.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(lines[i]["step"], steps[i]);
}

StateDict weights_of(const fs::path& out, bool language) {
  const fs::path folder = follow_pointer(out / kCheckpointFolder, kLatestPointer);
  return language ? state_dict(*load_language_file(folder, Weights::kRaw).model)
                  : state_dict(*load_model_file(folder, Weights::kRaw).model);
}

class BoundLog : public ::testing::TestWithParam<bool> {
 protected:
  json values() const { return GetParam() ? language_values(dir_) : vision_values(); }

  testing::TempDir dir_;
};

TEST_P(BoundLog, MeasuringChangesNoWeight) {
  const fs::path plain = dir_.path() / "plain", measured = dir_.path() / "measured";
  run(plain, values());
  run(measured, merged(values(), {{"bound_every_steps", 1}}));
  expect_steps(bound_lines(measured), {0, 1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(bound_lines(plain).empty());
  const StateDict a = weights_of(plain, GetParam()), b = weights_of(measured, GetParam());
  for (const auto& [name, value] : a) EXPECT_TRUE(torch::equal(value, b.at(name))) << name;
}

TEST_P(BoundLog, HoldsTheRatesOfEveryLayerThatHasThem) {
  const fs::path out = dir_.path() / "run";
  run(out, merged(values(), {{"bound_every_steps", 3}}));
  const auto lines = bound_lines(out);
  expect_steps(lines, {0, 3, 6});
  const std::vector<int64_t> numbers =
      GetParam() ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1, 2};
  for (const json& line : lines) {
    EXPECT_EQ(line["samples"], GetParam() ? 8 : 16);
    ASSERT_EQ(line["layers"].size(), numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const json& layer = line["layers"][i];
      EXPECT_EQ(layer["layer"], numbers[i]);
      EXPECT_GT(layer["exact"].get<double>(), 0);
      EXPECT_GT(layer["gap"].get<double>(), 0);
      EXPECT_NEAR(layer["bound"].get<double>() - layer["exact"].get<double>(),
                  layer["gap"].get<double>(), 1e-12);
      EXPECT_GT(layer["theory_gap"].get<double>(), 0);
      EXPECT_GT(layer["compression_after"].get<double>(), 0);
      const bool lowered = layer["objective_unscaled"] < layer["objective"];
      EXPECT_TRUE(GetParam() || lowered) << "the tied layer lowers what it was derived from";
    }
  }
  EXPECT_NE(lines[0]["layers"], lines[2]["layers"]) << "the weights have moved";
}

TEST_P(BoundLog, AResumedRunLogsTheSame) {
  const fs::path whole = dir_.path() / "whole", parts = dir_.path() / "parts";
  const json measured = merged(values(), {{"bound_every_steps", 2}});
  run(whole, measured);
  std::atomic<bool> stop = false;
  struct Stopper : TrainListener {
    std::atomic<bool>* stop;
    void on_step(const StepReport& report) override { *stop = report.step == 3; }
  } stopper;
  stopper.stop = &stop;
  train({parts, RunMode::kNew, measured}, stopper, &stop);
  run(parts, {}, RunMode::kResume);
  EXPECT_EQ(bound_lines(parts), bound_lines(whole));
  expect_steps(bound_lines(parts), {0, 2, 4, 6});
}

TEST_P(BoundLog, MixersWithoutMembershipsAreRefusedAtTheStart) {
  const fs::path out = dir_.path() / "run";
  json without = merged(values(), {{"bound_every_steps", 2}, {"mixer", "softmax"}});
  without.erase("hybrid_every");
  try {
    run(out, without);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    const std::string text = error.what();
    EXPECT_NE(text.find("softmax"), std::string::npos) << text;
    EXPECT_NE(text.find("tssa, "), std::string::npos) << text;
  }
  EXPECT_FALSE(fs::exists(out));
}

INSTANTIATE_TEST_SUITE_P(Kinds, BoundLog, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Language" : "Vision"; });

}  // namespace bound_log_test
}  // namespace tost
