#include <gtest/gtest.h>

#include <cmath>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/study/lra_table.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace lra_test {

using nlohmann::json;

using testing::mentions;

std::string usage_error(const LraOptions& options) {
  return testing::usage_error_of([&] { plan_lra(options); });
}

TEST(LraPlan, LeavesOutWhatHasNoData) {
  const LraPlan plan = plan_lra({});
  ASSERT_EQ(plan.tasks.size(), 3u);
  EXPECT_EQ(plan.tasks[0].name, "listops");
  EXPECT_EQ(plan.tasks[1].name, "pathfinder");
  EXPECT_EQ(plan.tasks[2].name, "pathx");
  ASSERT_EQ(plan.missing.size(), 3u);
  EXPECT_TRUE(mentions(plan.missing[0].why, "--data text=PATH")) << plan.missing[0].why;
  EXPECT_EQ(plan.reference, "softmax");
  const SweepSpec& spec = plan.tasks[0].spec;
  EXPECT_EQ(spec.settings.at("recipe"), "lra-listops");
  EXPECT_EQ(spec.split, "test");
  EXPECT_EQ(spec.seeds, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(make_plan(spec).runs.size(), 15u);
}

TEST(LraPlan, ProtocolsAndTheOneRecipe) {
  LraOptions options{.tasks = {"listops"}, .protocol = "s4"};
  EXPECT_EQ(plan_lra(options).tasks[0].spec.settings.at("recipe"), "s4-listops");
  options = {.tasks = {"listops", "pathx"}, .one = true, .mixers = {"tssa"}, .seeds = {4}};
  const LraPlan one = plan_lra(options);
  EXPECT_EQ(one.reference, "tssa");
  EXPECT_EQ(one.tasks[0].spec.title, "ListOps, one recipe on data as in the google protocol");
  for (const LraTask& task : one.tasks) EXPECT_EQ(task.spec.settings.at("recipe"), "lra");
  EXPECT_EQ(one.tasks[0].spec.settings.at("max_length"), 2000);
  EXPECT_EQ(one.tasks[1].spec.settings.at("side"), 128);
  options.reduced = true;
  options.settings = {{"max_steps", 7}};
  const LraPlan reduced = plan_lra(options);
  ASSERT_EQ(reduced.tasks.size(), 1u);
  EXPECT_EQ(reduced.missing[0].name, "pathx");
  EXPECT_EQ(reduced.tasks[0].spec.settings.at("max_steps"), 7);
  EXPECT_EQ(reduced.tasks[0].spec.settings.at("model_options").at("dim"), 64);
}

// An idx file of zeros.
void write_idx(const std::filesystem::path& file, const std::vector<int>& sizes) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  size_t values = 1;
  for (const int size : sizes) {
    text += {'\0', '\0', '\0', static_cast<char>(size)};
    values *= size_t(size);
  }
  write_file_atomic(file, text + std::string(values, '\0'));
}

TEST(LraPlan, EveryReductionMakesAPlan) {
  const testing::TempDir dir;
  const auto at = [&](const char* name) { return (dir.path() / name).string(); };
  write_file_atomic(at("text.tsv"), "0\tbad film\n1\tgood film\n0\tdull\n1\tfine\n");
  write_file_atomic(at("pairs.tsv"), "0\ta\tb\tone\ttwo\n1\tc\td\tone\tone\n");
  make_directories(at("pictures"));
  for (const char* split : {"train", "t10k"}) {
    const std::string prefix = at("pictures") + "/" + split;
    write_idx(prefix + "-images-idx3-ubyte", {20, 8, 8});
    write_idx(prefix + "-labels-idx1-ubyte", {20});
  }
  const LraOptions options{
      .data = {{"text", at("text.tsv")}, {"retrieval", at("pairs.tsv")}, {"image", at("pictures")}},
      .reduced = true};
  const LraPlan plan = plan_lra(options);
  ASSERT_EQ(plan.tasks.size(), 5u);
  ASSERT_EQ(plan.missing.size(), 1u);
  EXPECT_TRUE(mentions(plan.missing[0].why, "no reduced form"));
  EXPECT_EQ(plan.tasks[1].spec.split, "validation") << "one table has no test split";
  EXPECT_EQ(plan.tasks[3].name, "image");
  EXPECT_EQ(plan.tasks[3].spec.split, "test");
  for (const LraTask& task : plan.tasks) {
    EXPECT_EQ(make_plan(task.spec).runs.size(), 15u) << task.name;
    EXPECT_EQ(task.spec.settings.at("threads"), 1) << task.name;
  }
}

TEST(LraPlan, RefusesWhatIsNotThere) {
  EXPECT_TRUE(mentions(usage_error({.tasks = {"listop"}}), "Did you mean 'listops'?"));
  EXPECT_TRUE(mentions(usage_error({.protocol = "s5"}), "google or s4"));
  EXPECT_TRUE(mentions(usage_error({.mixers = {"tsa"}}), "tssa"));
  EXPECT_TRUE(mentions(usage_error({.mixers = {}}), "no mixer"));
  EXPECT_TRUE(mentions(usage_error({.seeds = {}}), "no seed"));
  EXPECT_TRUE(mentions(usage_error({.tasks = {"text"}}), "No task can be run"));
  EXPECT_TRUE(mentions(usage_error({.tasks = {"listops"}, .data = {{"text", "x"}}}),
                       "not among the tasks"));
  EXPECT_THROW(plan_lra({.tasks = {"text"}, .data = {{"text", "/nowhere"}}}), Error);
}

// Three tasks of the six with made-up scores.
class LraResults : public ::testing::Test {
 protected:
  static SweepSummary summary(const std::map<std::string, std::map<int64_t, double>>& scores,
                              const std::map<std::string, int64_t>& parameters) {
    SweepSummary s;
    s.metric = "top1";
    for (const auto& [mixer, by_seed] : scores) {
      VariantSummary v;
      v.variant = mixer;
      v.by_seed = by_seed;
      std::vector<double> values;
      for (const auto& [seed, value] : by_seed) values.push_back(value);
      v.score = mean_spread(values);
      v.parameters = parameters.at(mixer);
      v.seconds = v.cpu_seconds = mean_spread({10, 12});
      v.steps = {50, 100};
      s.variants.push_back(v);
    }
    return s;
  }

  static LraPlan plan_of(const std::vector<std::string>& tasks) {
    LraPlan plan;
    plan.reference = "softmax";
    for (const std::string& task : tasks) {
      SweepSpec spec;
      spec.grid = {{"mixer", {"tssa", "softmax"}}};
      plan.tasks.push_back({task, spec});
    }
    return plan;
  }

  const std::map<std::string, int64_t> parameters_{{"tssa", 900}, {"softmax", 1000}};
};

TEST_F(LraResults, BothAveragesSeedBySeed) {
  const std::vector<std::string> five{"listops", "text", "retrieval", "image", "pathfinder"};
  std::map<std::string, SweepSummary> summaries;
  double score = 0.3;
  for (const std::string& task : five) {
    // Seed 2 is missing in one task, and then in no average.
    std::map<int64_t, double> tssa{{0, score}, {1, score + 0.1}};
    if (task != "image") tssa[2] = 0.9;
    summaries[task] = summary({{"tssa", tssa}, {"softmax", {{0, 0.5}}}}, parameters_);
    score += 0.1;
  }
  const LraTable table = lra_table(plan_of(five), summaries, "T");
  const LraRow& tssa = table.rows[0];
  EXPECT_EQ(tssa.mean_of_five.n, 2);
  EXPECT_NEAR(tssa.mean_of_five.mean, 0.55, 1e-12);  // 0.5 and 0.6
  EXPECT_NEAR(tssa.mean_of_five.spread, std::sqrt(0.005), 1e-12);
  EXPECT_TRUE(tssa.path_x_assumed);
  EXPECT_NEAR(tssa.mean_of_six.mean, (0.55 * 5 + 0.5) / 6, 1e-12);
  EXPECT_NEAR(*tssa.cells.at("text").more, -0.1, 1e-12);
  EXPECT_EQ(tssa.cells.at("text").steps, 100);
  const std::string text = lra_markdown(table);
  EXPECT_TRUE(mentions(text,
                       "| mixer | ListOps | Text | Retrieval | Image | Pathfinder | mean of "
                       "5 | mean of 6 |"))
      << text;
  EXPECT_TRUE(mentions(text, "55.00 ± 7.07 | 54.17 ± 5.89 * |")) << text;
  EXPECT_TRUE(mentions(text, "900 (-10.0 %)")) << text;
  EXPECT_TRUE(mentions(text, "* as 50")) << text;
  EXPECT_TRUE(mentions(text, "over 1 to 3 seeds")) << text;
  const LraTable one =
      lra_table(plan_of({"text"}), {{"text", summary({{"tssa", {{0, 0.5}}}}, parameters_)}}, "One");
  EXPECT_FALSE(mentions(lra_markdown(one), "standard deviation")) << lra_markdown(one);
  EXPECT_TRUE(mentions(lra_csv(table), "tssa,listops,3,")) << lra_csv(table);
  EXPECT_EQ(to_json(table)["rows"][0]["tasks"]["text"]["parameters"], 900);
}

TEST_F(LraResults, PathXCountsWhereItWasRun) {
  std::map<std::string, SweepSummary> summaries;
  for (const std::string& task : lra_tasks()) {
    summaries[task] = summary(
        {{"tssa", {{0, 0.4}}}, {"softmax", {{0, task == "pathx" ? 1.0 : 0.4}}}}, parameters_);
  }
  const LraTable table = lra_table(plan_of(lra_tasks()), summaries, "T");
  EXPECT_NEAR(table.rows[0].mean_of_six.mean, 0.4, 1e-12);
  EXPECT_NEAR(table.rows[1].mean_of_six.mean, 0.5, 1e-12);
  EXPECT_FALSE(table.rows[1].path_x_assumed);
  EXPECT_FALSE(mentions(lra_markdown(table), "* as 50"));
}

TEST_F(LraResults, AMissingTaskLeavesTheAveragesOut) {
  const std::map<std::string, SweepSummary> summaries{
      {"listops", summary({{"tssa", {{0, 0.4}, {1, 0.5}}}}, {{"tssa", 1200}})}};
  LraPlan plan = plan_of({"listops", "text"});
  plan.missing.push_back({"image", "Image is left out: why."});
  const LraTable table = lra_table(plan, summaries, "T");
  EXPECT_EQ(table.rows[0].mean_of_five.n, 0);
  EXPECT_TRUE(table.rows[1].cells.empty());
  const std::string text = lra_markdown(table);
  EXPECT_TRUE(mentions(text, "| tssa | 45.00 ± 7.07 | – | – | – |")) << text;
  EXPECT_TRUE(mentions(text, "| softmax | – | – | – | – |")) << text;
  EXPECT_TRUE(mentions(text, "Image is left out: why.")) << text;
}

TEST_F(LraResults, MoreThanTenPercentIsSaid) {
  const std::map<std::string, SweepSummary> summaries{
      {"listops", summary({{"tssa", {{0, 0.4}}}, {"softmax", {{0, 0.4}}}},
                          {{"tssa", 1101}, {"softmax", 1000}})}};
  const LraTable table = lra_table(plan_of({"listops"}), summaries, "T");
  ASSERT_EQ(table.remarks.size(), 1u);
  EXPECT_TRUE(mentions(table.remarks[0], "tssa has +10.1 %")) << table.remarks[0];
}

TEST_F(LraResults, FailedRunsAreCounted) {
  for (const auto& [failed, words] : {std::pair{1, "1 run of tssa failed"}, {2, "2 runs of"}}) {
    SweepSummary one = summary({{"tssa", {{0, 0.4}}}}, {{"tssa", 1000}});
    one.variants[0].failed = failed;
    const LraTable table = lra_table(plan_of({"listops"}), {{"listops", one}}, "T");
    ASSERT_EQ(table.remarks.size(), 1u);
    EXPECT_TRUE(mentions(table.remarks[0], words)) << table.remarks[0];
  }
}

class Watcher : public SweepListener {
 public:
  void on_run(const SweepStep& step, int64_t, int64_t) override {
    actions.push_back(action_name(step.action));
  }
  std::vector<std::string> actions;
};

TEST(SlowLraRun, TrainsEveryTaskAndGoesOn) {
  const testing::TempDir dir;
  LraOptions options{.tasks = {"listops", "pathfinder"},
                     .mixers = {"tssa", "none"},
                     .seeds = {0},
                     .reduced = true};
  options.settings = {{"max_steps", 2},   {"evaluate_every_steps", 2},
                      {"train_size", 40}, {"test_size", 8},
                      {"min_tokens", 5},  {"max_tokens", 20},
                      {"batch", 4},       {"model_options", {{"dim", 8}, {"heads", 2}}},
                      {"warmup_steps", 1}};
  const LraPlan plan = plan_lra(options);
  Watcher first;
  const LraResult result = run_lra(plan, "tiny", {.out = dir.path()}, first);
  EXPECT_EQ(result.failed, 0);
  EXPECT_EQ(first.actions.size(), 4u);
  EXPECT_EQ(result.table.rows[0].cells.size(), 2u);
  EXPECT_EQ(result.table.rows[0].cells.at("listops").steps, 2);
  // none has nothing where tssa has its maps.
  EXPECT_GT(result.table.rows[0].cells.at("listops").parameters,
            result.table.rows[1].cells.at("listops").parameters);
  for (const char* name : {"lra.md", "lra.csv", "lra.json", "index.html", "listops/results.md"}) {
    EXPECT_TRUE(std::filesystem::exists(dir.path() / name)) << name;
  }
  Watcher second;
  const LraResult again = run_lra(plan, "tiny", {.out = dir.path()}, second);
  EXPECT_TRUE(second.actions.empty());
  EXPECT_EQ(lra_csv(again.table), lra_csv(result.table));
  for (const auto& [name, steps] : lra_steps(plan, {.out = dir.path()})) {
    for (const SweepStep& step : steps) EXPECT_EQ(step.action, RunAction::kKeep) << name;
  }
}

}  // namespace lra_test
}  // namespace tost
