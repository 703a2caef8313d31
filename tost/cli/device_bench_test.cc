// What bench measures of whole models, on a GPU, real or stood in for.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/bench/product_floor.h"
#include "tost/kinds/language/decode_bench.h"
#include "tost/kinds/language/model_checks.h"
#include "tost/kinds/vision/presets.h"
#include "tost/ops/device.h"
#include "tost/study/model_bench_test_util.h"
#include "tost/study/train_bench.h"
#include "tost/testing/stand_in_gpu.h"

namespace tost {
namespace {

ModelBenchOptions tiny(const std::string& model) {
  ModelBenchOptions options = testing::tiny_model_bench(model);
  options.floors = true;
  options.precisions = {Precision::kFp32, Precision::kBf16};
  options.device = "cuda";
  options.warmup = 3;
  options.repeat = 3;
  options.steps = 4;
  return options;
}

// The logits are compared with those of the CPU before anything is timed.
TEST(BenchOnGpu, SlowMeasuresModelsOfEveryKind) {
  TOST_TEST_GPU(device);
  for (const char* model : {"tost_nano_p4", "tost_gpt_char", "tost_recall_stream"}) {
    ModelBenchOptions options = tiny(model);
    for (const char* graphs : {"auto", "off"}) {
      options.graphs = graphs;
      if (std::string(model) != "tost_nano_p4") options.floors = false;
      const auto rows = run_model_bench(options, [](const ModelBenchRow&) {});
      ASSERT_FALSE(rows.empty());
      for (const ModelBenchRow& row : rows) {
        EXPECT_EQ(row.missing, "") << model;
        EXPECT_NE(row.device, "cpu");
        EXPECT_EQ(row.times_ms.size(), 3u);
        EXPECT_GT(row.median_ms, 0);
        EXPECT_EQ(row.read_ms > 0, options.floors);
        EXPECT_EQ(row.products_ms > 0, options.floors && row.test != "decode");
        EXPECT_LE(row.error, facts_of(row.precision).logit_error);
        EXPECT_EQ(row.graphs, options.graphs == "auto" && row.test != "prefill");
      }
      options.precisions = {Precision::kBf16};
      options.floors = false;
    }
  }
}

TEST(BenchOnGpu, RefusesWhatIsTheCpus) {
  TOST_TEST_GPU(device);
  ModelBenchOptions options = tiny("tost_nano_p4");
  options.engines = {true};
  EXPECT_THROW(check_model_bench(options), Error);
  options = tiny("tost_nano_p4");
  options.precisions = {Precision::kInt8};
  EXPECT_THROW(check_model_bench(options), Error);
  options = tiny("tost_nano_p4");
  options.graphs = "perhaps";
  EXPECT_THROW(check_model_bench(options), Error);
  DecodeBenchOptions decode;
  decode.models = {"tost_gpt_char"};
  decode.device = device;
  decode.precisions = {Precision::kInt4};
  EXPECT_THROW(run_decode_bench(decode, [](const DecodeBenchRow&) {}), Error);
  decode.device = torch::kCPU;
  decode.graphs = "on";
  EXPECT_THROW(run_decode_bench(decode, [](const DecodeBenchRow&) {}), Error);
}

TEST(BenchOnGpu, SlowMeasuresTrainingSteps) {
  TOST_TEST_GPU(device);
  TrainBenchOptions options;
  options.config.vocab = 11, options.config.block = 16, options.config.dim = 24;
  options.config.depth = 1, options.config.heads = 2;
  options.repeat = 2;
  options.batch = 2;
  options.device = device;
  options.precisions = {Precision::kFp32, Precision::kBf16};
  std::vector<double> losses;
  for (const char* graphs : {"on", "off"}) {
    options.graphs = graphs;
    for (const auto& row : run_train_bench(options, [](const TrainBenchRow&) {})) {
      EXPECT_GT(row.floor_ms, 0);
      for (const StepCost* cost : {&row.step, &row.plain, &row.twin}) {
        EXPECT_GT(cost->ms, 0);
        EXPECT_GT(cost->forward_backward_ms, 0);
        EXPECT_LE(cost->forward_backward_ms, cost->ms);
        EXPECT_GT(cost->update_ms, 0);
        const bool by_parts = cost == &row.plain || options.graphs == "off";
        EXPECT_EQ(cost->forward_ms > 0, by_parts);
        EXPECT_EQ(cost->backward_ms > 0, by_parts);
        EXPECT_EQ(cost->graphs, !by_parts);
        EXPECT_EQ(cost->bytes > 0, by_parts && built_with_cuda());
      }
      EXPECT_NEAR(row.step.loss, row.plain.loss, 0.2);  // weights of its own
      losses.push_back(row.step.loss);
    }
  }
  EXPECT_NEAR(losses[0], losses[2], 1e-4);  // the same weights and ids
  options.vision = vision_preset("tost_nano_p4");
  options.vision->dim = 24, options.vision->heads = 2, options.vision->depth = 1;
  options.vision->classes = 5, options.vision->stem_depth = 1;
  options.image_size = 8;
  options.graphs = "on";
  for (const auto& row : run_train_bench(options, [](const TrainBenchRow&) {})) {
    EXPECT_GT(row.step.ms, 0);
  }
  options.recompute = "block";
  EXPECT_THROW(run_train_bench(options, [](const TrainBenchRow&) {}), Error);
}

TEST(BenchOnGpu, ChecksTheLossInTheDevicesPrecision) {
  TOST_TEST_GPU(device);
  torch::manual_seed(1);
  LanguageConfig config;
  config.vocab = 11, config.block = 8, config.dim = 8, config.depth = 1, config.heads = 2;
  const auto model = make_language_model(config);
  model->to(device);
  for (const Precision precision : {Precision::kBf16, Precision::kFp32}) {
    bool rounds = false;
    check_same_loss(
        *model,
        [&](const torch::Tensor& ids, const torch::Tensor& targets) {
          rounds = at::autocast::is_autocast_enabled(device.type());
          return model->loss(ids, targets);
        },
        precision);
    EXPECT_EQ(rounds, precision == Precision::kBf16);
  }
}

TEST(BenchOnGpu, SlowMeasuresDecoding) {
  TOST_TEST_GPU(device);
  DecodeBenchOptions options;
  options.models = {"tost_gpt_char", "gpt_char"};
  options.device = device;
  options.contexts = {8};
  options.tokens = 4;
  options.batch = 2;
  const auto rows = run_decode_bench(options, [](const DecodeBenchRow&) {});
  ASSERT_EQ(rows.size(), 4u);
  for (const auto& row : rows) {
    EXPECT_GT(row.step_ms, 0);
    EXPECT_GT(row.read_ms, 0);
    EXPECT_GT(row.state_bytes, 0);
    EXPECT_EQ(row.graphs, row.model == "tost_gpt_char");  // the other's state grows
  }
  EXPECT_EQ(rows[0].weight_bytes, 2 * rows[1].weight_bytes);
}

// What is demanded and cannot be is not measured; what may be left out says that it was.
TEST(BenchOnGpu, SlowSaysWhetherGraphsRan) {
  TOST_TEST_GPU(device);
  ModelBenchOptions options = tiny("tost_gpt_char");
  options.floors = false;
  options.precisions = {Precision::kFp32};
  options.warmup = 0;
  options.graphs = "on";
  auto rows = run_model_bench(options, [](const ModelBenchRow&) {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NE(rows[0].missing.find("prefill"), std::string::npos);
  EXPECT_EQ(rows[1].missing, "");
  EXPECT_TRUE(rows[1].graphs);
  if (built_with_cuda()) GTEST_SKIP() << "a real GPU captures";

  const testing::NoCaptures refused;
  for (const char* graphs : {"on", "auto"}) {
    const bool ends = std::string(graphs) == "on";
    options.graphs = graphs;
    for (const char* model : {"tost_nano_p4", "tost_gpt_char", "tost_seq_tiny"}) {
      options.models = {model};
      options.tests = {std::string(model) == "tost_gpt_char" ? "decode" : "forward"};
      rows = run_model_bench(options, [](const ModelBenchRow&) {});
      ASSERT_EQ(rows.size(), 1u);
      EXPECT_EQ(rows[0].missing.find("graphs on cannot be") == 0, ends) << rows[0].missing;
      EXPECT_EQ(rows[0].median_ms > 0, !ends);
      EXPECT_FALSE(rows[0].graphs);
    }
    DecodeBenchOptions decode;
    decode.models = {"tost_gpt_char"};
    decode.precisions = {Precision::kFp32};
    decode.device = device, decode.graphs = graphs;
    decode.contexts = {4}, decode.tokens = 2;
    TrainBenchOptions train;
    train.config.vocab = 11, train.config.block = 8, train.config.dim = 8;
    train.config.depth = 1, train.config.heads = 2;
    train.repeat = 1;
    train.plain = false;
    train.device = device, train.graphs = graphs;
    const auto run_both = [&] {
      for (const auto& row : run_decode_bench(decode, [](const DecodeBenchRow&) {})) {
        EXPECT_FALSE(row.graphs);
      }
      for (const auto& row : run_train_bench(train, [](const TrainBenchRow&) {})) {
        EXPECT_FALSE(row.step.graphs || row.twin.graphs);
        EXPECT_GT(row.step.forward_ms, 0);
      }
    };
    if (!ends) {
      run_both();
      continue;
    }
    EXPECT_THROW(run_decode_bench(decode, [](const DecodeBenchRow&) {}), Error);
    EXPECT_THROW(run_train_bench(train, [](const TrainBenchRow&) {}), Error);
  }
}

TEST(BenchOnGpu, ReadsItsMemory) {
  TOST_TEST_GPU(device);
  EXPECT_GT(memory_read_ms(64 << 20, device), 0);
}

}  // namespace
}  // namespace tost
