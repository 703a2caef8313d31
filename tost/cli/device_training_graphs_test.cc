// Training by graphs, on a GPU, real or stood in for: the checkpoints of the same without them.
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/cli/device_test_util.h"
#include "tost/kinds/train_run.h"
#include "tost/ops/device.h"
#include "tost/testing/stand_in_gpu.h"
#include "tost/testing/temp_dir.h"
#include "tost/train/run_test_util.h"

namespace tost {
namespace device_training_graphs_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::newest_checkpoint;
using torch::Tensor;

std::vector<std::string> run(const fs::path& out, const json& values, RunMode mode = RunMode::kNew,
                             int64_t stop_at = -1) {
  testing::StopAt listener(stop_at);
  train({out, mode, values}, listener, &listener.stop);
  return listener.messages;
}

// Torch's own kernels need not repeat bit for bit on a GPU; the stand-in's do.
void expect_same_runs(const fs::path& a, const fs::path& b) {
  const Checkpoint x = newest_checkpoint(a), y = newest_checkpoint(b);
  ASSERT_EQ(x.step, y.step);
  ASSERT_EQ(x.parts.size(), y.parts.size());
  for (size_t i = 0; i < x.parts.size(); ++i) {
    for (const auto& [name, tensor] : x.parts[i].tensors) {
      const Tensor& other = y.parts[i].tensors.at(name);
      if (built_with_cuda() && tensor.is_floating_point()) {
        EXPECT_TRUE(torch::allclose(tensor, other, 0.02, 1e-4)) << name;
      } else {
        EXPECT_TRUE(tensor.equal(other)) << name;
      }
    }
  }
}

json vision_values() {
  json values = testing::tiny_vision_values();
  values.update({{"eval_batch", 24},
                 {"lr", 1e-3},
                 {"warmup_epochs", 1},
                 {"clip", 0.5},
                 {"outlier_z", 6},
                 {"device", "cuda"},
                 {"evaluate_ema", true}});
  values["model_options"]["depth"] = 2;
  return values;
}

json language_values(const testing::TempDir& dir) {
  json values = testing::tiny_language_values(testing::write_text_of_numbers(dir));
  values.update({{"accumulate", 2},
                 {"max_steps", 9},
                 {"warmup_steps", 3},
                 {"evaluate_every_steps", 4},
                 {"precision", "bf16"},
                 {"device", "cuda"}});
  return values;
}

// With and without graphs, and with them in two processes. `said`: of the one by graphs.
void expect_same_training(const testing::TempDir& dir, json values,
                          const std::vector<std::string>& said = {}) {
  values["graphs"] = "off";
  run(dir.path() / "plain", values);
  values["graphs"] = "on";
  EXPECT_EQ(run(dir.path() / "graphs", values), said);
  expect_same_runs(dir.path() / "plain", dir.path() / "graphs");
  run(dir.path() / "parts", values, RunMode::kNew, 5);
  run(dir.path() / "parts", json::object(), RunMode::kResume);
  expect_same_runs(dir.path() / "plain", dir.path() / "parts");
}

TEST(TrainingByGraphs, SlowOfPicturesIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  expect_same_training(dir, vision_values());
}

TEST(TrainingByGraphs, SlowOfTextsIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  expect_same_training(dir, language_values(dir));
}

// Subspaces made orthonormal, and a triangular system a chunk, in every step.
TEST(TrainingByGraphs, SlowOfTiedAndDeltaMixersIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir pictures, texts;
  json values = vision_values();
  values["model_options"]["mixer"] = "tssa-tied";
  expect_same_training(pictures, values);
  values = language_values(texts);
  values["mixer"] = "delta";
  expect_same_training(texts, values);
}

// Padded batches of many lengths: more shapes than there are graphs.
TEST(TrainingByGraphs, SlowOfSequencesIsTheSame) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  std::string rows;
  for (int64_t i = 0; i < 96; ++i) {
    const char label = i % 3 == 0 ? 'a' : 'b';
    rows += std::string(1, label) + "\t" + std::string(size_t(4 + i * 7 % 9), label) + "x\n";
  }
  write_file_atomic(dir.path() / "train.tsv", rows);
  expect_same_training(
      dir,
      {{"model", "tost_seq_tiny"},
       {"data", (dir.path() / "train.tsv").string()},
       {"data_format", "text"},
       {"holdout", 0.25},
       {"batch", 6},
       {"eval_batch", 7},
       {"epochs", 3},
       {"warmup_steps", 3},
       {"threads", 1},
       {"dropout", 0.1},
       {"dim", 16},
       {"depth", 1},
       {"heads", 2},
       {"device", "cuda"}},
      {"Some of it runs without graphs: there are graphs for 6 sets of shapes, and "
       "this is one more."});
}

// A rate that makes losses outliers: skipped steps leave weights and count of steps alone.
TEST(TrainingByGraphs, SlowSkipsTheSameSteps) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  json values = vision_values();
  values["outlier_z"] = 0.5;
  values["outlier_limit"] = 100;
  values["epochs"] = 3;
  values["graphs"] = "off";
  const auto wanted = run(dir.path() / "plain", values);
  values["graphs"] = "on";
  const auto found = run(dir.path() / "graphs", values);
  if (!built_with_cuda()) {
    EXPECT_EQ(found, wanted);
  }
  expect_same_runs(dir.path() / "plain", dir.path() / "graphs");
}

TEST(TrainingByGraphs, SlowSaysThatItGoesOnWithout) {
  TOST_TEST_GPU(device);
  if (built_with_cuda()) GTEST_SKIP() << "a real GPU captures";
  const testing::TempDir dir;
  const testing::NoCaptures refused;
  expect_same_training(dir, language_values(dir),
                       {"It runs without graphs: this device captures nothing."});
}

TEST(TrainingByGraphs, AreRefusedWhereTheyCannotBe) {
  TOST_TEST_GPU(device);
  const testing::TempDir dir;
  json values = language_values(dir);
  values["graphs"] = "on";
  values["recompute"] = "block";
  EXPECT_THROW(run(dir.path() / "run", values), Error);
  values["graphs"] = "on";
  values["recompute"] = "none";
  values["device"] = "cpu";
  EXPECT_THROW(run(dir.path() / "other", values), Error);
}

}  // namespace device_training_graphs_test
}  // namespace tost
