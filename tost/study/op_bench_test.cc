#include "tost/study/op_bench.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/errors.h"
#include "tost/base/error.h"
#include "tost/ops/caching_allocator.h"

namespace tost {
namespace {

TEST(OpBench, ReadsShapes) {
  const auto shapes = parse_op_shapes("32x197,8x1024");
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].batch, 32);
  EXPECT_EQ(shapes[1].tokens, 1024);
  for (const char* bad :
       {"", "8", "8x", "x8", "8x8,", "0x8", "8x-1", "8x8;9x9", "99999999999999999999x1"}) {
    EXPECT_THROW(parse_op_shapes(bad), Error) << bad;
  }
}

TEST(OpBench, MeasuresEveryFigure) {
  install_caching_allocator();
  OpBenchOptions options;
  options.shapes = {{2, 33}};
  options.dim = 48;
  options.heads = 4;
  options.repeat = 2;
  for (const bool causal : {false, true}) {
    options.causal = causal;
    int reported = 0;
    const auto rows = run_op_bench(options, [&](const OpBenchRow&) { ++reported; });
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(reported, 1);
    const auto& r = rows[0];
    for (const double ms : {r.copy_ms, r.core_ms, r.plain_ms, r.core_both_ms, r.plain_both_ms,
                            r.layer_ms, r.projections_ms, r.layer_both_ms, r.projections_both_ms}) {
      EXPECT_GT(ms, 0.0);
    }
    EXPECT_GT(r.plain_layer_kept, r.layer_kept);
  }
}

TEST(OpBench, RefusesBadOptions) {
  OpBenchOptions options;
  options.shapes = {{1, 1}};
  options.heads = 5;
  EXPECT_THROW(run_op_bench(options, [](const OpBenchRow&) {}), Error);
  options.heads = 12;
  options.dtype = "int8";
  EXPECT_THROW(run_op_bench(options, [](const OpBenchRow&) {}), Error);
}

TEST(OpBench, RefusesMoreThanMemoryHolds) {
  OpBenchOptions options;
  for (const OpBenchShape& shape : {OpBenchShape{999'999'999, 999'999'999}, {1, 140'000'000'000}}) {
    options.shapes = {shape};
    const std::string message = testing::error_of(
        ErrorKind::kData, [&] { run_op_bench(options, [](const OpBenchRow&) {}); });
    EXPECT_NE(message.find(cat("--shapes ", shape.batch, "x", shape.tokens)), std::string::npos);
  }
}

}  // namespace
}  // namespace tost
