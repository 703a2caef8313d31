#include "tost/study/torch_bench.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/bench/product_floor.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/vision/model_file.h"
#include "tost/ops/safetensors.h"
#include "tost/study/model_bench_test_util.h"

namespace tost {
namespace {

using testing::tiny_model_bench;

std::vector<ModelBenchRow> rows_of(const ModelBenchOptions& options) {
  return run_model_bench(options, [](const ModelBenchRow&) {});
}

double deviation(const torch::Tensor& found, const torch::Tensor& wanted) {
  return relative_error(floats_of(found), floats_of(wanted));
}

void expect_measured(const ModelBenchRow& row) {
  EXPECT_EQ(row.missing, "");
  EXPECT_EQ(row.times_ms.size(), 2u);
  EXPECT_GT(row.median_ms, 0);
  EXPECT_LE(row.low_ms, row.median_ms);
  EXPECT_LE(row.median_ms, row.high_ms);
  EXPECT_GT(row.weight_bytes, 0);
  EXPECT_LE(row.error, facts_of(row.precision).logit_error);
}

TEST(ModelBench, ReadsLengths) {
  EXPECT_EQ(parse_lengths("128,1k,2M"), (std::vector<int64_t>{128, 1024, 2 << 20}));
  EXPECT_EQ(parse_lengths("1024M"), (std::vector<int64_t>{1 << 30}));
  for (const char* bad : {"", "k", "12,", ",12", "0", "-4", "4kk", "4 8", "1025M", "64,32", "8,8",
                          "1.5k", "99999999999999999999"}) {
    EXPECT_THROW(parse_lengths(bad), Error) << bad;
  }
}

TEST(ModelBench, MeasuresPictures) {
  auto options = tiny_model_bench("tost_nano_p4");
  options.batches = {1, 3};
  options.precisions = {Precision::kFp32, Precision::kBf16};
  options.floors = true;
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 4u);
  for (const auto& row : rows) {
    expect_measured(row);
    EXPECT_EQ(row.kind, "vision");
    EXPECT_EQ(row.unit, "images/s");
    EXPECT_EQ(row.size, 32);
    EXPECT_DOUBLE_EQ(row.rate, 1e3 * double(row.batch) / row.median_ms);
    EXPECT_GT(row.products_ms, 0);
    EXPECT_GT(row.read_ms, 0);
  }
  EXPECT_EQ(rows[0].error, 0);  // the plain path itself
  EXPECT_GT(rows[1].error, 1e-5);
  EXPECT_EQ(rows[2].batch, 3);
}

TEST(ModelBench, ReportsTheEnginesTimeByWork) {
  auto options = tiny_model_bench("tost_nano_p4");
  options.engines = {true, false};
  options.precisions = {Precision::kInt8};
  options.work = true;
  for (const auto& row : rows_of(options)) {
    if (!row.engine) {
      EXPECT_EQ(row.work_total_ms, 0);
      continue;
    }
    using kernels::Work;
    double sum = 0;
    for (const double ms : row.work_ms) sum += ms;
    EXPECT_LE(sum, row.work_total_ms);
    for (const Work kind : {Work::kProduct, Work::kFinish, Work::kNorm, Work::kRounding,
                            Work::kMixing, Work::kGather}) {
      EXPECT_GT(row.work_ms[size_t(kind)], 0) << kernels::work_name(kind);
    }
  }
}

TEST(ModelBench, MeasuresLanguageByTheTwoTests) {
  auto options = tiny_model_bench("tost_gpt_char");
  options.tokens = {8, 20};
  options.steps = 4;
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 4u);
  for (const auto& row : rows) expect_measured(row);
  EXPECT_EQ(rows[0].test, "prefill");
  EXPECT_DOUBLE_EQ(rows[1].rate, 20e3 / rows[1].median_ms);
  EXPECT_EQ(rows[2].test, "decode");
  EXPECT_DOUBLE_EQ(rows[3].rate, 1e3 / rows[3].median_ms);
}

TEST(ModelBench, ReadsBeyondLearnedPositionsWithoutThem) {
  auto options = tiny_model_bench("tost_gpt_char");  // positions for 64 tokens
  options.tokens = {100};
  options.tests = {"prefill"};
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 1u);
  expect_measured(rows[0]);
}

TEST(ModelBench, MeasuresSequencesAndMixers) {
  auto options = tiny_model_bench("tost_seq_tiny");
  options.tokens = {40};
  options.mixers = {"tssa", "softmax"};
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& row : rows) expect_measured(row);
  EXPECT_EQ(rows[0].unit, "sequences/s");
  EXPECT_EQ(rows[1].mixer, "softmax");
}

TEST(ModelBench, TheVisionEngineAgreesInEveryPrecision) {
  auto options = tiny_model_bench("tost_nano_p4");
  options.precisions = {Precision::kFp32, Precision::kBf16, Precision::kInt8};
  options.engines = {true};
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) expect_measured(row);
  EXPECT_EQ(rows[1].weight_bytes * 2, rows[0].weight_bytes);
  EXPECT_LT(rows[0].error, rows[1].error);
}

TEST(ModelBench, TheLanguageEngineAgreesInEveryPrecision) {
  auto options = tiny_model_bench("tost_gpt_char");
  options.tokens = {8};
  options.steps = 2;
  options.precisions = {Precision::kFp32, Precision::kBf16, Precision::kInt8, Precision::kInt4};
  options.engines = {true};
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 8u);
  for (const auto& row : rows) expect_measured(row);
}

TEST(ModelBench, SaysWhatAModelDoesNotHave) {
  auto options = tiny_model_bench("tost_nano_p4");
  options.precisions = {Precision::kInt4};
  const auto rows = rows_of(options);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NE(rows[0].missing, "");
  EXPECT_TRUE(rows[0].times_ms.empty());
}

TEST(ModelBench, WeightsForLongTextsHaveNoPositions) {
  const testing::TempDir folder;
  const std::string model = (folder.path() / "model.safetensors").string();
  auto options = tiny_model_bench("tost_gpt_char");
  options.tests = {"prefill"};
  options.tokens = {32};
  save_bench_weights(options, model);
  EXPECT_EQ(load_language_file(model).info.config.positions, "learned");
  options.tokens = {32, 100};  // the preset has positions for 64
  save_bench_weights(options, model);
  EXPECT_EQ(load_language_file(model).info.config.positions, "none");
}

TEST(ModelBench, SavedWeightsGiveTheSameLogits) {
  const testing::TempDir folder;
  const std::string model = folder.path() / "m.safetensors",
                    logits = folder.path() / "l.safetensors";
  auto options = tiny_model_bench("tost_nano_p4");
  options.precisions = {Precision::kFp32, Precision::kBf16};
  save_bench_weights(options, model);
  save_bench_logits(options, logits);
  const auto file = load_safetensors(logits);
  const auto loaded = load_model_file(model);
  const torch::NoGradGuard no_grad;
  const auto found = loaded.model->forward(file.tensors.at("input"));
  EXPECT_LT(deviation(found, file.tensors.at("plain")), 1e-6);
  EXPECT_EQ(deviation(file.tensors.at("fp32.plain"), file.tensors.at("plain")), 0);
  EXPECT_GT(deviation(file.tensors.at("bf16.plain"), file.tensors.at("plain")), 1e-5);
  // Pictures show in the logits: the first of the batch is not the second.
  options.batches = {2};
  save_bench_logits(options, logits);
  const auto two = load_safetensors(logits).tensors.at("plain");
  EXPECT_GT(deviation(two[0], two[1]), 0.05);
  options.models = {model};
  EXPECT_EQ(rows_of(options).size(), 2u);
}

TEST(ModelBench, StopsBetweenConfigurations) {
  const std::atomic<bool> stop{true};
  auto options = tiny_model_bench("tost_nano_p4");
  options.stop = &stop;
  EXPECT_TRUE(rows_of(options).empty());
}

TEST(ModelBench, RelativeErrorIsInfiniteWhereNothingCanBeCompared) {
  const auto a = torch::tensor({1.0, -4.0}), b = torch::tensor({1.0, -3.0});
  EXPECT_DOUBLE_EQ(deviation(b, a), 0.25);
  EXPECT_TRUE(std::isinf(deviation(a, torch::tensor({1.0}))));
  EXPECT_TRUE(std::isinf(deviation(torch::tensor({1.0, double(NAN)}), a)));
}

TEST(ModelBench, RefusesBadOptions) {
  const auto fails = [](auto change) {
    auto options = tiny_model_bench("tost_nano_p4");
    change(options);
    EXPECT_THROW(rows_of(options), Error);
  };
  fails([](auto& o) { o.models = {"tost_nano_p5"}; });
  fails([](auto& o) { o.models.clear(); });
  fails([](auto& o) { o.batches = {0}; });
  fails([](auto& o) { o.batches.clear(); });
  EXPECT_EQ(
      testing::usage_error_of([] { precisions_named("--precision", {"fp16"}); }),
      cat("--precision 'fp16' is none of ", list_of(all_precisions()), ". Did you mean 'fp32'?"));
  fails([](auto& o) { o.tests = {"decode"}; });
  fails([](auto& o) { o.tests = {"train"}; });
  fails([](auto& o) { o.image_sizes = {33}; });
  fails([](auto& o) { o.mixers = {"attention"}; });
  fails([](auto& o) { o.repeat = 0; });
  fails([](auto& o) { o.warmup = -1; });
  fails([](auto& o) { o.threads = {0}; });
}

}  // namespace
}  // namespace tost
