#include "tost/study/run_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tost/study/sweep_summary.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

using nlohmann::json;

RunRecord record() {
  RunRecord r;
  r.state = RunState::kDone;
  r.settings = {{"lr", 0.003}, {"model_options", {{"heads", 8}}}};
  r.begun = 0xe3069283;
  r.parameters = 123;
  r.seconds = 4.5;
  r.cpu_seconds = std::nullopt;
  r.metric = "top1";
  r.scores = {{"top1", 0.5}, {"loss", 1.25}};
  r.scored_by = {{"split", "test"}};
  r.corrupted = {{"noise", {0.4, 0.3}}};
  r.heads = 8;
  r.curve = {{10, 20}, {1, 2}, {0.25, 0.5}};
  return r;
}

TEST(RunRecord, ComesBackFromItsFile) {
  const testing::TempDir dir;
  EXPECT_FALSE(read_record(dir.path()));
  write_record(dir.path(), record());
  const RunRecord back = *read_record(dir.path());
  EXPECT_EQ(to_json(back), to_json(record()));
  EXPECT_EQ(back.state, RunState::kDone);
  EXPECT_FALSE(back.cpu_seconds);
  EXPECT_FALSE(back.head_width);
  EXPECT_EQ(back.begun, 0xe3069283);
  EXPECT_EQ(back.curve.values, (std::vector<double>{0.25, 0.5}));
}

TEST(RunRecord, ScoresThatAreNotFiniteComeBackAsSuch) {
  const testing::TempDir dir;
  RunRecord record;
  record.state = RunState::kDone;
  record.scores = {{"loss", std::nan("")}, {"top1", 0.25}};
  write_record(dir.path(), record);
  const std::optional<RunRecord> back = read_record(dir.path());
  ASSERT_TRUE(back);
  EXPECT_TRUE(std::isnan(back->scores.at("loss")));
  EXPECT_EQ(back->scores.at("top1"), 0.25);
}

// Records of earlier versions do not say what their runs began with.
TEST(RunRecord, WithoutAChecksumAnyConfigurationIsTaken) {
  const testing::TempDir dir;
  json before = to_json(record());
  before.erase("begun");
  std::ofstream(dir.path() / "result.json") << before;
  EXPECT_EQ(read_record(dir.path())->begun, kBegunUnknown);
  before["begun"] = nullptr;
  std::ofstream(dir.path() / "result.json") << before;
  EXPECT_EQ(read_record(dir.path())->begun, std::nullopt);
}

TEST(RunRecord, ForeignFilesAreDataErrors) {
  const testing::TempDir dir;
  const auto refusal = [&](const std::string& text) -> std::string {
    std::ofstream(dir.path() / "result.json") << text;
    return testing::data_error_of([&] { read_record(dir.path()); });
  };
  json broken = to_json(record());
  EXPECT_EQ(refusal(broken.dump()), "");
  broken["state"] = "finished";
  EXPECT_NE(refusal(broken.dump()).find("the state 'finished'"), std::string::npos);
  broken = to_json(record());
  broken["parameters"] = "many";
  EXPECT_NE(refusal(broken.dump()).find("is not a record"), std::string::npos);
  for (const json& value : {json(1e300), json(0.5)}) {
    broken = to_json(record());
    broken["heads"] = value;
    EXPECT_NE(refusal(broken.dump()).find("where an integer belongs"), std::string::npos);
  }
  broken = to_json(record());
  broken["curve"]["values"] = {1};
  EXPECT_NE(refusal(broken.dump()).find("differ in length"), std::string::npos);
  EXPECT_NE(refusal("{\"a\":" + std::string(100'000, '[')).find("deeper than 24 levels"),
            std::string::npos);
  EXPECT_NE(refusal("").find("(it is not JSON at byte 1);"), std::string::npos);
  EXPECT_NE(refusal("[]").find("(not a JSON object);"), std::string::npos);
  EXPECT_NE(refusal("{}").find("is not a record"), std::string::npos);
}

RunAction action_of(const RunRecord& r, const json& settings, bool overwrite = false,
                    const json& rule = {{"split", "test"}}) {
  return choose_action(&r, settings, r.pretrain, rule, overwrite, "out/runs/a/seed-0");
}

TEST(ChooseAction, FollowsTheRecord) {
  RunRecord r = record();
  const json same = r.settings, other = {{"lr", 0.001}, {"model_options", {{"heads", 8}}}};
  EXPECT_EQ(choose_action(nullptr, same, json(), json(), false, ""), RunAction::kTrain);
  EXPECT_EQ(action_of(r, same), RunAction::kKeep);
  EXPECT_EQ(action_of(r, same, false, {{"split", "validation"}}), RunAction::kScore);
  r.state = RunState::kTrained;
  EXPECT_EQ(action_of(r, same), RunAction::kScore);
  r.state = RunState::kStarted;
  EXPECT_EQ(action_of(r, same), RunAction::kResume);
  EXPECT_EQ(action_of(r, other, true), RunAction::kRedo);
  r.state = RunState::kFailed;
  EXPECT_EQ(action_of(r, same), RunAction::kResume) << "a full disk must not cost the training";
  EXPECT_EQ(action_of(r, same, true), RunAction::kRedo);
  EXPECT_EQ(action_of(r, other), RunAction::kRedo);
}

TEST(ChooseAction, OtherSettingsNeedOverwrite) {
  const auto refusal = [](const json& settings, const json& pretrain) -> std::string {
    const RunRecord r = record();
    return testing::usage_error_of(
        [&] { choose_action(&r, settings, pretrain, r.scored_by, false, "out/runs/a/seed-0"); });
  };
  json settings = record().settings;
  settings["model_options"]["heads"] = 4;
  const std::string message = refusal(settings, json());
  EXPECT_NE(message.find("out/runs/a/seed-0"), std::string::npos);
  EXPECT_NE(message.find("model_options.heads is 8 there and 4 now"), std::string::npos) << message;
  EXPECT_NE(message.find("--overwrite"), std::string::npos);
  settings = record().settings;
  settings.erase("lr");
  EXPECT_NE(refusal(settings, json()).find("lr is 0.003 there and not set now"), std::string::npos);
  EXPECT_NE(refusal(record().settings, json{{"lr", 1}}).find("pretrain"), std::string::npos);
}

TEST(SweepStatistics, AgreeWithTheHand) {
  const MeanSpread three = mean_spread({1, 2, 6});
  EXPECT_EQ(three.n, 3);
  EXPECT_DOUBLE_EQ(three.mean, 3);
  EXPECT_DOUBLE_EQ(three.spread, std::sqrt((4 + 1 + 9) / 2.0));
  EXPECT_DOUBLE_EQ(mean_spread({5}).mean, 5);
  EXPECT_TRUE(std::isnan(mean_spread({5}).spread));
  EXPECT_TRUE(std::isnan(mean_spread({}).mean));
  // Seeds 1 and 2 are in both: differences 3 and 5.
  const MeanSpread paired =
      paired_difference({{1, 10}, {2, 20}, {3, 99}}, {{0, 1}, {1, 7}, {2, 15}});
  EXPECT_EQ(paired.n, 2);
  EXPECT_DOUBLE_EQ(paired.mean, 4);
  EXPECT_DOUBLE_EQ(paired.spread, std::sqrt(2.0));
}

}  // namespace
}  // namespace tost
