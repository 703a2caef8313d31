#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "tost/io/image.h"
#include "tost/study/sweep_report.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

using nlohmann::json;

// Two variants with seeds 0, 1, 2; scores as given, the last run of the second failed.
class Results : public ::testing::Test {
 protected:
  Results() {
    spec_.title = "A <b> title";
    spec_.note = "What & why.";
    spec_.seeds = {0, 1, 2};
    spec_.grid = {{"mixer", {"tssa", "none"}}};
    spec_.corruptions = SweepCorruptions{{"blur"}, {1, 2}, "test"};
    plan_ = make_plan(spec_);
    const std::vector<double> top1{0.50, 0.52, 0.57, 0.40, 0.46, 0};
    for (size_t i = 0; i < plan_.runs.size(); ++i) steps_.push_back(make(plan_.runs[i], top1[i]));
    steps_.back().record->state = RunState::kFailed;
    steps_.back().record->error = "The loss, \"nan\".";
    steps_.back().record->scores.clear();
    steps_.back().record->corrupted.clear();
  }

  static SweepStep make(const PlannedRun& run, double top1) {
    RunRecord r;
    r.state = RunState::kDone;
    r.settings = run.settings;
    r.parameters = 1234;
    r.seconds = 10.0 + double(run.seed);
    r.metric = "top1";
    r.scores = {{"top1", top1}, {"top5", 0.9}, {"loss", 1 - top1}};
    r.corrupted = {{"blur", {top1 - 0.1, top1 - 0.3}}};
    if (run.variant == "tssa") r.heads = 4, r.head_width = 16;
    r.curve = {{10, 20}, {1, 2}, {top1 / 2, top1}};
    return {run, RunAction::kKeep, r};
  }

  SweepSpec spec_;
  SweepPlan plan_;
  std::vector<SweepStep> steps_;
};

TEST_F(Results, SummarizeOverSeeds) {
  const SweepSummary summary = summarize(spec_, plan_, steps_);
  const VariantSummary &tssa = summary.variants[0], &none = summary.variants[1];
  EXPECT_NEAR(tssa.score.mean, 0.53, 1e-12);
  EXPECT_NEAR(tssa.score.spread, std::sqrt((0.0009 + 0.0001 + 0.0016) / 2), 1e-12);
  EXPECT_EQ(tssa.difference.n, 0);
  EXPECT_EQ(none.score.n, 2);
  EXPECT_EQ(none.failed, 1);
  EXPECT_NEAR(none.difference.mean, -0.08, 1e-12);  // -0.10 and -0.06
  EXPECT_NEAR(none.difference.spread, 0.04 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(tssa.corrupted.at("blur")[1].mean, 0.23, 1e-12);
  EXPECT_NEAR(tssa.corrupted_mean.at("blur").mean, 0.33, 1e-12);
  EXPECT_EQ(tssa.epochs, (std::vector<int64_t>{1, 2}));
  EXPECT_NEAR(tssa.curve[0].mean, 0.265, 1e-12);
  EXPECT_EQ(tssa.seconds.mean, 11);
}

TEST_F(Results, AreATableToReadAndOneForPrograms) {
  const SweepSummary summary = summarize(spec_, plan_, steps_);
  const std::string text = results_markdown(spec_, summary, steps_);
  EXPECT_NE(text.find("| variant | parameters | heads | p | top-1 % | difference to tssa | loss | "
                      "seeds | seconds | CPU s |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("| tssa | 1,234 | 4 | 16 | 53.00 ± 3.61 | – |"), std::string::npos) << text;
  EXPECT_NE(text.find("| none | 1,234 | – | – | 43.00 ± 4.24 | -8.00 ± 2.83 |"), std::string::npos)
      << text;
  EXPECT_NE(text.find("# A &lt;b> title\n\nWhat &amp; why.\n"), std::string::npos) << text;
  EXPECT_NE(text.find("± is the sample standard deviation"), std::string::npos);
  EXPECT_NE(text.find("| 2 (1 failed) |"), std::string::npos);
  EXPECT_NE(text.find("| tssa | 53.00 ± 3.61 | 33.00 ± 3.61 |"), std::string::npos) << text;
  EXPECT_NE(text.find("Failed: none, seed 2: The loss, \"nan\"."), std::string::npos);
  std::istringstream csv(results_csv(summary, steps_));
  std::string line;
  std::getline(csv, line);
  EXPECT_EQ(line,
            "variant,seed,state,parameters,top1,top5,loss,seconds,cpu_seconds,blur_1,blur_2,error");
  std::getline(csv, line);
  EXPECT_EQ(line.substr(0, 33), "tssa,0,done,1234,0.5,0.9,0.5,10.0");
  for (int i = 0; i < 5; ++i) std::getline(csv, line);
  EXPECT_EQ(line, "none,2,failed,1234,,,,,,,,\"The loss, \"\"nan\"\".\"");
}

TEST_F(Results, ForProgramsHaveAColumnForEveryScoreThereIs) {
  const auto header = [&](const std::string& metric, const std::map<std::string, double>& scores) {
    for (SweepStep& step : steps_) {
      step.record->metric = metric;
      step.record->scores = scores;
      step.record->corrupted.clear();
    }
    spec_.corruptions.reset();
    const std::string csv = results_csv(summarize(spec_, plan_, steps_), steps_);
    return csv.substr(0, csv.find('\n'));
  };
  const std::string begin = "variant,seed,state,parameters,", end = ",seconds,cpu_seconds,error";
  EXPECT_EQ(header("top1", {{"top1", 0.5}, {"loss", 1}}), begin + "top1,loss" + end);
  EXPECT_EQ(
      header("accuracy", {{"accuracy", 0.5}, {"accuracy 64/4", 1}, {"exact", 0}, {"loss", 1}}),
      begin + "accuracy,exact,loss,accuracy 64/4" + end);
}

TEST_F(Results, JsonHasEveryRunAndNullForNoSpread) {
  steps_.resize(1);
  const json results = results_json(spec_, summarize(spec_, plan_, steps_), steps_);
  EXPECT_EQ(results["runs"].size(), 1u);
  EXPECT_EQ(results["runs"][0]["settings"]["mixer"], "tssa");
  EXPECT_EQ(results["variants"][0]["scores"]["top1"]["mean"], 0.5);
  EXPECT_TRUE(results["variants"][0]["scores"]["top1"]["spread"].is_null());
  EXPECT_TRUE(results["variants"][1]["scores"]["top1"]["mean"].is_null());
}

TEST_F(Results, AreFilesOfEveryPlot) {
  for (SweepPlot plot : {SweepPlot::kDots, SweepPlot::kCurve, SweepPlot::kLines}) {
    const testing::TempDir dir;
    spec_.plot = plot;
    write_results(spec_, plan_, steps_, dir.path(), "tost sweep <f>");
    const auto read = [&](const char* name) {
      std::ifstream in(dir.path() / name);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const std::string page = read("index.html");
    EXPECT_NE(page.find("A &lt;b&gt; title"), std::string::npos);
    EXPECT_NE(page.find("tost sweep &lt;f&gt;"), std::string::npos);
    EXPECT_NE(page.find("<svg"), std::string::npos);
    EXPECT_EQ(json::parse(read("results.json"))["title"], "A <b> title");
    EXPECT_NE(read("plot.svg").find(plot == SweepPlot::kLines ? "blur" : "tssa"),
              std::string::npos);
    EXPECT_GT(read_image((dir.path() / "plot.png").string()).width, 300);
  }
}

TEST_F(Results, SurviveASweepWithoutAnyRun) {
  for (SweepStep& step : steps_) step.record.reset();
  for (SweepPlot plot : {SweepPlot::kDots, SweepPlot::kCurve, SweepPlot::kLines}) {
    const testing::TempDir dir;
    spec_.plot = plot;
    write_results(spec_, plan_, steps_, dir.path(), "");
    EXPECT_TRUE(std::filesystem::exists(dir.path() / "index.html"));
  }
}

}  // namespace
}  // namespace tost
