// What bench measures of whole models, on a GPU, real or stood in for.
#include <gtest/gtest.h>

#include "tests/testing/stand_in_gpu.h"
#include "tost/base/error.h"
#include "tost/bench/product_floor.h"
#include "tost/ops/device.h"
#include "tost/study/model_bench_test_util.h"

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
    options.floors = std::string(model) == "tost_nano_p4";
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
}

TEST(BenchOnGpu, ReadsItsMemory) {
  TOST_TEST_GPU(device);
  EXPECT_GT(memory_read_ms(64 << 20, device), 0);
}

}  // namespace
}  // namespace tost
