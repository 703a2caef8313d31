#include "tost/study/sweep_plan.h"

#include <gtest/gtest.h>

#include "tost/testing/errors.h"

namespace tost {
namespace {

using nlohmann::json;

SweepSpec small() {
  SweepSpec spec;
  spec.settings = {{"epochs", 1}, {"model_options", {{"depth", 2}}}};
  spec.grid = {{"mixer", {"tssa", "none"}}, {"model_options.heads", {8, 4}}};
  spec.seeds = {0, 3};
  return spec;
}

std::string refusal(const SweepSpec& spec) {
  return testing::usage_error_of([&] { make_plan(spec); });
}

void expect_refusal(const SweepSpec& spec, const std::string& words) {
  const std::string message = refusal(spec);
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

TEST(SweepPlan, IsTheProductTimesTheSeeds) {
  const SweepPlan plan = make_plan(small());
  EXPECT_EQ(plan.kind->name, "vision");
  EXPECT_EQ(plan.variants, (std::vector<std::string>{"tssa_heads-8", "tssa_heads-4", "none_heads-8",
                                                     "none_heads-4"}));
  ASSERT_EQ(plan.runs.size(), 8u);
  const PlannedRun& run = plan.runs[3];
  EXPECT_EQ(run.variant, "tssa_heads-4");
  EXPECT_EQ(run.seed, 3);
  EXPECT_EQ(run.settings, json({{"epochs", 1},
                                {"seed", 3},
                                {"mixer", "tssa"},
                                {"model_options", {{"depth", 2}, {"heads", 4}}}}));
  EXPECT_EQ(run.folder, "runs/tssa_heads-4/seed-3");
  EXPECT_FALSE(run.pretrain);
}

TEST(SweepPlan, VariantsMultiplyWithTheGrid) {
  SweepSpec spec = small();
  spec.variants = {{.name = "slow", .settings = {{"lr", 0.001}}},
                   {.name = "fast", .settings = {{"lr", 0.01}}}};
  spec.grid = {{"mixer", {"xca", "linear"}}};
  EXPECT_EQ(make_plan(spec).variants,
            (std::vector<std::string>{"slow_xca", "slow_linear", "fast_xca", "fast_linear"}));
}

TEST(SweepPlan, AFirstStageTakesItsOwnSettingsOverAllOthers) {
  SweepSpec spec = small();
  spec.grid.clear();
  spec.variants = {{.name = "a", .settings = {{"mixer", "xca"}, {"epochs", 4}}},
                   {.name = "b", .pretrained = false}};
  spec.pretrain = json{{"epochs", 9}, {"data", "elsewhere"}};
  const SweepPlan plan = make_plan(spec);
  EXPECT_EQ(plan.runs[0].settings.at("epochs"), 4);
  EXPECT_EQ(*plan.runs[0].pretrain, json({{"epochs", 9},
                                          {"data", "elsewhere"},
                                          {"mixer", "xca"},
                                          {"seed", 0},
                                          {"model_options", {{"depth", 2}}}}));
  EXPECT_FALSE(plan.runs[2].pretrain);
  EXPECT_EQ(plan.runs[1].pretrain_folder, "runs/a/seed-3-pretrain");
}

TEST(SweepPlan, JudgesSettingsBeforeAnythingRuns) {
  SweepSpec spec = small();
  spec.settings["epoch"] = 1;
  expect_refusal(spec, "Did you mean 'epochs'?");
  spec = small();
  spec.settings["epochs"] = "many";
  expect_refusal(spec, "epochs is \"many\"");
  spec = small();
  spec.grid[1].key = "model_options.head";
  expect_refusal(spec, "Did you mean 'heads'?");
  spec = small();
  spec.grid[1].key = "model_optins.heads";
  expect_refusal(spec, "only model_options has fields");
  spec = small();
  spec.grid[0].values.push_back("tsa");
  expect_refusal(spec, "Variant 'tsa_heads-8' cannot be trained");
  spec = small();
  spec.pretrain = json{{"epochz", 1}};
  expect_refusal(spec, "Variant 'tssa_heads-8 before fine-tuning' cannot be trained");
}

TEST(SweepPlan, KeepsSeedAndSourceToItself) {
  SweepSpec spec = small();
  spec.settings["seed"] = 1;
  expect_refusal(spec, "the sweep's list \"seeds\" gives it");
  spec = small();
  spec.settings["from"] = "x";
  expect_refusal(spec, "use \"pretrain\"");
}

TEST(SweepPlan, RefusesPointsOfOneName) {
  SweepSpec spec = small();
  spec.grid = {{"data", {"a/b", "a-b"}}};
  expect_refusal(spec, "two variants named 'data-a-b'");
  spec.grid = {{"mixer", {""}}};
  expect_refusal(spec, "cannot be a folder");
  spec.grid.assign(5, {"lr", std::vector<json>(100, 0.1)});
  expect_refusal(spec, "more than 10000 runs");
}

TEST(SweepPlan, LanguageModelsAreScoredByTheirLoss) {
  SweepSpec spec = small();
  spec.settings = {{"model", "tost_gpt_char"}, {"data", "texts"}};
  spec.grid = {{"mixer", {"tssa", "none"}}};
  EXPECT_EQ(make_plan(spec).kind->name, "language");
  spec.split = "test";
  expect_refusal(spec, "validation loss");
  spec.split = "";
  spec.corruptions = SweepCorruptions{};
  expect_refusal(spec, "Corruptions are for pictures");
  spec.corruptions.reset();
  spec.grid = {{"model", {"tost_gpt_char", "tost_nano_p4"}}};
  spec.settings = {{"data", "x"}};
  expect_refusal(spec, "models of one kind");
}

}  // namespace
}  // namespace tost
