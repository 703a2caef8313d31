#include "tost/study/train_bench.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/kinds/language/plain_model.h"
#include "tost/kinds/vision/presets.h"
#include "tost/ops/caching_allocator.h"

namespace tost {
namespace train_bench_test {

TrainBenchOptions tiny() {
  TrainBenchOptions options;
  options.config.vocab = 11, options.config.block = 16, options.config.dim = 24;
  options.config.depth = 1, options.config.heads = 2;
  options.repeat = 1;
  return options;
}

TEST(TrainBench, ReadsPrecisions) {
  EXPECT_EQ(parse_precisions("fp32,bf16"), (Precisions{Precision::kFp32, Precision::kBf16}));
  for (const char* bad : {"", "fp16", "fp32,", ",bf16", "fp32 bf16"}) {
    EXPECT_THROW(parse_precisions(bad), Error) << bad;
  }
}

TEST(TrainBench, MeasuresEveryFigure) {
  install_caching_allocator();
  TrainBenchOptions options = tiny();
  options.precisions = {Precision::kFp32, Precision::kBf16};
  options.batch = 2;
  int reported = 0;
  const auto rows = run_train_bench(options, [&](const TrainBenchRow&) { ++reported; });
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(reported, 2);
  for (const TrainBenchRow& row : rows) {
    EXPECT_EQ(row.samples, 32);
    // Two products for each of 24x24 twice, 24x96, 96x24 and 24x11, forward and twice backward.
    EXPECT_NEAR(row.floor_gflop, 6e-9 * 32 * (2 * 24 * 24 + 2 * 24 * 96 + 24 * 11), 1e-12);
    for (const StepCost* cost : {&row.step, &row.plain, &row.twin}) {
      EXPECT_GT(cost->ms, 0.0);
      EXPECT_GE(cost->ms, cost->forward_ms);
      EXPECT_GT(cost->backward_ms, 0.0);
      EXPECT_GT(cost->update_ms, 0.0);
    }
  }
}

TEST(TrainBench, MeasuresImageModels) {
  install_caching_allocator();
  TrainBenchOptions options = tiny();
  options.vision = vision_preset("tost_nano_p4");
  options.vision->dim = 24, options.vision->heads = 2, options.vision->depth = 1;
  options.vision->classes = 5, options.vision->stem_depth = 1;
  options.image_size = 8;
  options.batch = 3;
  options.precisions = {Precision::kFp32, Precision::kBf16};
  for (const char* recompute : {"none", "block"}) {
    options.recompute = recompute;
    for (const TrainBenchRow& row : run_train_bench(options, [](const TrainBenchRow&) {})) {
      EXPECT_EQ(row.samples, 3);
      EXPECT_GT(row.floor_ms, 0.0);
      // 3 x 4 tokens: two maps of the mixer, two of the MLP, keys and values of each class block;
      // the head; and convolutions of 27 x 12 on 4 x 4 and 108 x 24 on 2 x 2 pixels, the first
      // without a gradient of its input.
      const int64_t blocks = 2 * 24 * 24 + 2 * 24 * 96 + options.vision->class_blocks * 48 * 24;
      const int64_t stem = 2 * 16 * 27 * 12 + 3 * 4 * 108 * 24;
      EXPECT_NEAR(row.floor_gflop, 2e-9 * 3 * double(3 * 4 * blocks + stem + 3 * 24 * 5), 1e-12);
      for (const StepCost* cost : {&row.step, &row.plain, &row.twin}) {
        EXPECT_GT(cost->ms, 0.0);
        EXPECT_GT(cost->state_bytes, 12 * row.parameters - 1);
      }
    }
  }
}

TEST(TrainBench, RefusesBadOptions) {
  const auto fails = [](auto change) {
    TrainBenchOptions options = tiny();
    change(options);
    EXPECT_THROW(run_train_bench(options, [](const TrainBenchRow&) {}), Error);
  };
  fails([](auto& o) { o.repeat = 0; });
  fails([](auto& o) { o.batch = 0; });
  fails([](auto& o) { o.config.heads = 5; });
  fails([](auto& o) { o.config.mixer = "softmax"; });
  fails([](auto& o) { o.config.hybrid_every = 1; });
  fails([](auto& o) { o.recompute = "half"; });
  fails([](auto& o) { o.vision = vision_preset("tost_nano_p4"), o.image_size = 10; });
  fails([](auto& o) { o.vision = vision_preset("xcit_nano_p4"), o.image_size = 8; });
}

TEST(TrainBench, HasNoPlainFormOfAdditions) {
  using Change = void (*)(CausalMixerOptions&);
  for (const Change change : std::initializer_list<Change>{
           [](auto& o) { o.conv = 4; }, [](auto& o) { o.decay = "fixed"; },
           [](auto& o) { o.scale_pi = true; }, [](auto& o) { o.means = "tokens"; },
           [](auto& o) { o.gate = true; }}) {
    TrainBenchOptions options = tiny();
    change(options.config.options);
    EXPECT_THROW(run_train_bench(options, [](const TrainBenchRow&) {}), Error);
    options.plain = options.twin = false;
    EXPECT_EQ(run_train_bench(options, [](const TrainBenchRow&) {}).size(), 1u);
  }
  LanguageConfig config = tiny().config;
  config.options.bias_positions = 3;
  EXPECT_NO_THROW(check_plain_form(config));
}

}  // namespace train_bench_test
}  // namespace tost
