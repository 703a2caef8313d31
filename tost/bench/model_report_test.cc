#include <gtest/gtest.h>

#include <sstream>

#include "tost/base/error.h"
#include "tost/bench/model_bench.h"

namespace tost {
namespace {

ModelBenchRow row(const std::string& model, double median_ms) {
  ModelBenchRow r;
  r.model = model;
  r.kind = "vision", r.mixer = "tssa", r.test = "forward", r.precision = Precision::kFp32;
  r.batch = 2, r.size = 32, r.threads = 1;
  r.times_ms = {median_ms - 1, median_ms, median_ms + 1};
  r.low_ms = median_ms - 0.5, r.median_ms = median_ms, r.high_ms = median_ms + 0.5;
  r.rate = 2e3 / median_ms, r.unit = "images/s";
  r.weight_bytes = 1000, r.products_ms = median_ms / 2;
  return r;
}

BenchOrigin origin() {
  BenchOrigin o;
  o.cpu = "Some, CPU \"x\"", o.features = "avx2", o.commit = "abc+", o.torch = "2.15.0";
  return o;
}

TEST(ModelReport, JsonSaysInEachRowWhereItWasMeasured) {
  const auto json = model_bench_json({row("a", 10), row("b", 20)}, origin());
  ASSERT_EQ(json["rows"].size(), 2u);
  for (const auto& r : json["rows"]) {
    EXPECT_EQ(r["cpu"], "Some, CPU \"x\"");
    EXPECT_EQ(r["commit"], "abc+");
    EXPECT_EQ(r["repeat"], 3);
    EXPECT_TRUE(r["read_ms"].is_null());
    EXPECT_TRUE(r["read_gb_per_s"].is_null());
    EXPECT_TRUE(r["missing"].is_null());
  }
  EXPECT_EQ(json["rows"][1]["products_ms"], 10.0);
}

TEST(ModelReport, MarkdownShowsSharesAndReasons) {
  auto missing = row("c", 10);
  missing.missing = "int4 needs the engine.";
  const auto text = model_bench_markdown({row("a", 10), missing}, origin());
  EXPECT_NE(text.find("| 10.0 [9.50, 10.5] | 200 images/s | 50 % | – |"), std::string::npos)
      << text;
  EXPECT_NE(text.find("int4 needs the engine."), std::string::npos);
  EXPECT_NE(text.find("Some, CPU \"x\" (avx2)"), std::string::npos);
}

TEST(ModelReport, ShowsTheTimeByWork) {
  auto known = row("a", 10);
  known.work_total_ms = 10;
  known.work_ms = {6, 1, 0.5, 0, 1.5, 0};
  const auto unknown = row("b", 10);
  const auto text = model_work_markdown({known, unknown});
  EXPECT_NE(text.find("| a | forward | 2 | 32 | fp32 | 10.0 | 60 % | 10 % | 5 % | – | 15 % | – | "
                      "10 % |"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("| b |"), std::string::npos);
  EXPECT_EQ(model_work_markdown({unknown}), "");
  const auto json = model_bench_json({known, unknown}, origin());
  EXPECT_EQ(json["rows"][0]["work_after_products_ms"], 1.0);
  EXPECT_EQ(json["rows"][0]["work_rest_ms"], 1.0);
  EXPECT_TRUE(json["rows"][1]["work_rest_ms"].is_null());
}

TEST(ModelReport, ComparesWhatBothRunsHave) {
  auto faster = row("a", 8), same = row("b", 10.2), slower = row("c", 12);
  auto other = row("a", 3);
  other.batch = 4;
  auto missing = row("d", 5);
  missing.median_ms = 0;
  const auto before = model_bench_json({row("a", 10), row("b", 10), row("c", 10), row("d", 5)}, {});
  const auto after = model_bench_json({faster, same, slower, other, missing}, {});
  const auto changes = compare_model_bench(before, after, "old.json");
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].verdict, "faster");
  EXPECT_DOUBLE_EQ(changes[0].ratio, 1.25);
  EXPECT_EQ(changes[1].verdict, "no difference");
  EXPECT_EQ(changes[2].verdict, "slower");
  EXPECT_NE(changes_markdown(changes).find("| a, tssa, forward, 2, 32, 1, fp32, plain | 10.0 | "
                                           "8.00 | 1.250 | faster |"),
            std::string::npos)
      << changes_markdown(changes);
  EXPECT_NE(changes_markdown({}).find("No configuration"), std::string::npos);
}

TEST(ModelReport, ComparesADeviceWithItselfAlone) {
  auto there = row("a", 2);
  there.device = "H200";
  const auto before = model_bench_json({row("a", 10)}, {}), after = model_bench_json({there}, {});
  EXPECT_TRUE(compare_model_bench(before, after, "old.json").empty());
  const auto changes = compare_model_bench(after, after, "old.json");
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].what, "a, tssa, forward, 2, 32, 1, fp32, plain, H200");
  auto older = before;  // of a version that measured on the CPU alone
  older["rows"][0].erase("device");
  EXPECT_EQ(compare_model_bench(older, before, "old.json").size(), 1u);
}

TEST(ModelReport, RefusesOtherJson) {
  const auto after = model_bench_json({row("a", 10)}, {});
  for (const char* text :
       {"[]", "{}", R"({"rows": 3})", R"({"rows": [{"model": "a"}]})", R"({"rows": [7]})"}) {
    EXPECT_THROW(compare_model_bench(nlohmann::json::parse(text), after, "x"), Error) << text;
  }
}

}  // namespace
}  // namespace tost
