#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "tost/base/file.h"
#include "tost/io/parse_json.h"
#include "tost/study/quality_plan.h"
#include "tost/study/quality_run.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace quality_test {

using nlohmann::json;
using testing::mentions;

// Small enough to train in a test.
QualityOptions tiny(std::vector<std::string> tasks) {
  return {.tasks = std::move(tasks),
          .contestants = {"softmax", "tssa"},
          .seeds = {0, 1},
          .learning_rates = {1e-3, 1e-2},
          .quick = true};
}

std::string usage_error(const QualityOptions& options) {
  return testing::usage_error_of([&] { plan_quality(options); });
}

const QualityTask& task_named(const QualityPlan& plan, const std::string& name) {
  for (const QualityTask& task : plan.tasks) {
    if (task.name == name) return task;
  }
  throw std::out_of_range(name);
}

TEST(QualityPlan, ContestantsHaveEqualParameters) {
  for (const bool quick : {true, false}) {
    const QualityPlan plan = plan_quality({.quick = quick});
    ASSERT_EQ(plan.tasks.size(), 10u);
    for (const QualityTask& task : plan.tasks) {
      ASSERT_EQ(task.spec.variants.size(), task.causal ? 9u : 10u) << task.name;
      int64_t least = INT64_MAX, most = 0;
      for (const SweepVariant& one : task.spec.variants) {
        const int64_t count = parameters_of_settings(one.settings, task.causal);
        least = std::min(least, count);
        most = std::max(most, count);
      }
      // The width of an MLP is an integer.
      EXPECT_LT(double(most - least), 0.02 * double(least)) << task.name << " " << quick;
    }
  }
}

TEST(QualityPlan, StatesAreThoseOfTheTasksLongestSample) {
  const QualityPlan plan = plan_quality({.tasks = {"mqar"}});
  const auto& bytes = task_named(plan, "mqar").state_bytes;
  // As docs/recall.md has them for two blocks of width 64 with a convolution.
  EXPECT_EQ(bytes.at("tssa"), 3'616);
  EXPECT_EQ(bytes.at("none"), 1'536);
  EXPECT_EQ(bytes.at("delta-tssa"), 12'304);
  EXPECT_GT(bytes.at("softmax"), bytes.at("delta"));
}

TEST(QualityPlan, TasksWithoutDataAreLeftOutWithALine) {
  const QualityPlan plan = plan_quality({.contestants = {"tssa"}});
  ASSERT_EQ(plan.missing.size(), 3u);
  EXPECT_TRUE(mentions(plan.missing[0].why, "--data words=PATH")) << plan.missing[0].why;
  // A contestant of the one kind of task alone.
  const QualityPlan few = plan_quality({.tasks = {"parity", "listops"}, .contestants = {"cbsa"}});
  EXPECT_EQ(few.tasks.size(), 1u);
  EXPECT_TRUE(mentions(few.missing.at(0).why, "Parity"));
}

TEST(QualityPlan, RefusesWhatCannotBe) {
  EXPECT_TRUE(mentions(usage_error({.tasks = {"mqr"}}), "mqar"));
  EXPECT_TRUE(mentions(usage_error({.contestants = {"sofmax"}}), "softmax"));
  EXPECT_TRUE(mentions(usage_error({.seeds = {}}), "seed"));
  EXPECT_TRUE(mentions(usage_error({.seeds = {kTuningSeed}}), "1000"));
  EXPECT_TRUE(mentions(usage_error({.learning_rates = {}}), "learning rate"));
  EXPECT_TRUE(mentions(usage_error({.learning_rates = {0}}), "above 0"));
  EXPECT_TRUE(mentions(usage_error({.tasks = {"words"}}), "--data words=PATH"));
  EXPECT_TRUE(mentions(usage_error({.data = {{"words", "/nowhere/x"}}}), "/nowhere/x"));
  EXPECT_TRUE(mentions(usage_error({.tasks = {"s3"}, .data = {{"words", "/"}}}), "words"));
  EXPECT_TRUE(mentions(usage_error({.tasks = {"s3"}, .settings = {{"batch", 0}}}), "batch"));
}

VariantSummary tried(const std::string& name, double score) {
  VariantSummary v;
  v.variant = name;
  v.score = mean_spread(std::isfinite(score) ? std::vector<double>{score} : std::vector<double>{});
  return v;
}

TEST(QualityRun, TheBestRateIsTheHighestScoreOrTheLowestLoss) {
  QualityTask task;
  task.spec.variants = {{.name = "a"}, {.name = "b"}};
  SweepSummary summary;
  summary.metric = "accuracy";
  summary.variants = {tried("a_lr-0.1", 0.5), tried("a_lr-0.2", 0.7), tried("a_lr-0.3", NAN),
                      tried("b_lr-0.1", NAN), tried("b_lr-0.2", NAN)};
  const std::vector<double> rates{0.1, 0.2, 0.3};
  EXPECT_EQ(best_rates(task, rates, summary), (std::map<std::string, double>{{"a", 0.2}}));
  summary.metric = "loss";
  EXPECT_EQ(best_rates(task, rates, summary), (std::map<std::string, double>{{"a", 0.1}}));
}

struct StopAfter : SweepListener {
  int64_t runs = 0, last = INT64_MAX;
  std::atomic<bool> stop = false;
  void on_run(const SweepStep&, int64_t, int64_t) override { ++runs; }
  void on_done(const SweepStep&) override { stop = --last <= 0; }
};

TEST(QualityRun, SlowStopsResumesAndTellsTheSame) {
  const testing::TempDir dir;
  const QualityPlan plan = plan_quality(tiny({"parity", "listops"}));
  const QualityHeading heading{.command = "tost bench quality <x>", .machine = "m", .date = "d"};
  const auto run = [&](const char* name, StopAfter& listener) {
    return run_quality(plan, heading, {.out = dir.path() / name}, listener, &listener.stop);
  };
  StopAfter whole, first, second, third;
  const QualityResult all = run("whole", whole);
  EXPECT_EQ(whole.runs, 16);  // two tasks of two contestants with two rates and two seeds
  EXPECT_EQ(all.failed, 0);
  EXPECT_FALSE(all.interrupted);
  first.last = 6;
  EXPECT_TRUE(run("parts", first).interrupted);
  EXPECT_EQ(first.runs, 6);
  EXPECT_TRUE(mentions(read_file(dir.path() / "parts/quality.md", 1 << 20), "are not done yet"));
  const QualityResult rest = run("parts", second);
  EXPECT_EQ(second.runs, 10);
  const auto without_times = [](const QualityTable& table) {
    json report = to_json(table);
    for (json& task : report["tasks"]) {
      for (json& cell : task["contestants"]) cell.erase("cpu_seconds");
    }
    return report;
  };
  EXPECT_EQ(without_times(all.table), without_times(rest.table));
  run("parts", third);
  EXPECT_EQ(third.runs, 0);
}

TEST(QualityRun, SlowTablesHaveTheFiguresOfTheRuns) {
  const testing::TempDir dir;
  SweepListener quiet;
  const auto out = dir.path() / "out";
  const QualityPlan plan = plan_quality(tiny({"mqar"}));
  const QualityResult result =
      run_quality(plan, {.command = "tost <x>", .machine = "m", .date = "d"}, {.out = out}, quiet);
  ASSERT_EQ(result.table.tasks.size(), 1u);
  const QualityTaskTable& task = result.table.tasks[0];
  EXPECT_EQ(task.metric, "accuracy");
  EXPECT_EQ(task.steps, 12);
  ASSERT_EQ(task.cells.size(), 2u);
  for (const QualityCell& cell : task.cells) {
    EXPECT_EQ(cell.score.n, 2);
    EXPECT_EQ(cell.tried.size(), 2u);
    EXPECT_EQ(cell.cases.size(), 2u);
    const double mean = (cell.cases.at("8/2").mean + cell.cases.at("16/4").mean) / 2;
    EXPECT_NEAR(cell.score.mean, mean, 1e-12);
    const auto settings = parse_json(
        read_file(out / "mqar/runs" / cell.contestant / "seed-1/config.json", 1 << 20), "it");
    EXPECT_EQ(settings.at("lr").get<double>(), cell.rate.value());
    const bool other = cell.rate == 1e-3;
    EXPECT_GE(cell.tried.at(*cell.rate), cell.tried.at(other ? 1e-2 : 1e-3));
    EXPECT_EQ(
        cell.parameters,
        parameters_of_settings(plan.tasks[0].spec.variants[size_t(&cell - &task.cells[0])].settings,
                               /*causal=*/true));
  }
  const json report = parse_json(read_file(out / "quality.json", 1 << 20), "it");
  EXPECT_EQ(report, to_json(result.table));
  EXPECT_TRUE(mentions(read_file(out / "quality.md", 1 << 20), "| tssa |"));
  EXPECT_TRUE(mentions(read_file(out / "index.html", 1 << 22), "tost &lt;x&gt;"));
}

}  // namespace quality_test
}  // namespace tost
