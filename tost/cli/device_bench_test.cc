// What bench measures of whole models, on a GPU, real or stood in for.
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/bench/product_floor.h"
#include "tost/ops/device.h"
#include "tost/study/model_bench_test_util.h"
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
  }
}

TEST(BenchOnGpu, ReadsItsMemory) {
  TOST_TEST_GPU(device);
  EXPECT_GT(memory_read_ms(64 << 20, device), 0);
}

}  // namespace
}  // namespace tost
