#include <gtest/gtest.h>

#include <cmath>
#include <future>

#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/train/data_watch.h"
#include "tost/train/loop_state.h"
#include "tost/train/run_log.h"

namespace tost {
namespace {

using nlohmann::json;

// Mean 3, standard deviation 1.
std::vector<double> twos_and_fours(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i % 2 == 0 ? 2 : 4);
  return values;
}

TEST(Guards, ACountOfStandardDeviationsAboveTheMeanIsTheLimit) {
  const auto window = twos_and_fours(32);
  EXPECT_FALSE(find_outlier("loss", 8, window, 5));
  EXPECT_FALSE(find_outlier("loss", -1000, window, 5)) << "below the mean nothing is bad";
  const auto bad = find_outlier("loss", 8.5, window, 5);
  ASSERT_TRUE(bad);
  EXPECT_DOUBLE_EQ(*bad->z, 5.5);
  EXPECT_EQ(describe(*bad), "the loss 8.5 lay 5.5 standard deviations above the mean");
}

TEST(Guards, TooFewStepsOrNoLimitAcceptAllFiniteValues) {
  EXPECT_FALSE(find_outlier("loss", 1e30, twos_and_fours(31), 5));
  EXPECT_FALSE(find_outlier("loss", 1e30, twos_and_fours(128), 0));
  for (const double value : {std::nan(""), double(INFINITY)}) {
    const auto bad = find_outlier("loss", value, {}, 0);
    ASSERT_TRUE(bad);
    EXPECT_FALSE(bad->z);
  }
}

TEST(Guards, RoundingOnAPlateauIsNoOutlier) {
  const std::vector<double> plateau(64, 2.0);
  EXPECT_FALSE(find_outlier("loss", 2 + 1e-7, plateau, 5));
  EXPECT_TRUE(find_outlier("loss", 2 + 1e-4, plateau, 5));
}

TEST(Guards, TheWindowHoldsTheLast128AndComesBackFromJson) {
  GuardState state{.skipped_in_row = 3};
  for (int i = 0; i < 200; ++i) state.accept(i + 1 / 3.0, 2 * i);
  EXPECT_EQ(state.skipped_in_row, 0);
  ASSERT_EQ(state.losses.size(), 128u);
  EXPECT_DOUBLE_EQ(state.losses.front(), 72 + 1 / 3.0);
  state.skipped = 4;
  state.lr_factor = 0.25;
  const json object = json::parse(to_json(state).dump());
  const GuardState back = guard_state_from_json(object, "here");
  EXPECT_EQ(back.losses, state.losses);
  EXPECT_EQ(to_json(back), to_json(state));
}

TEST(Guards, ImpossibleStatesAreRefused) {
  for (const auto& [key, value] : std::map<std::string, json>{{"losses", json::array({1.0})},
                                                              {"skipped", -1},
                                                              {"lr_factor", 0},
                                                              {"lr_factor", 2},
                                                              {"rollback_step", -2},
                                                              {"data_ahead", int64_t{1} << 60}}) {
    json object = to_json(GuardState{});
    object[key] = value;
    try {
      guard_state_from_json(object, "state.json");
      FAIL() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find("state.json"), std::string::npos);
    }
  }
}

// Events of the stretch that was left stay; all other lines beyond the step go.
TEST(Guards, TheLogKeepsEventsFromBeforeARollback) {
  const testing::TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  const auto event = [](int64_t step, int64_t rollbacks) {
    return json{{"kind", "event"}, {"step", step}, {"rollbacks", rollbacks}};
  };
  {
    MetricsLog log(path, -1);
    for (const json& line : {json{{"kind", "train"}, {"step", 10}}, event(12, 0),
                             json{{"kind", "train"}, {"step", 20}}, event(10, 1), event(15, 1)}) {
      log.add(line);
    }
  }
  const auto lines_left = [&](int64_t step, int64_t rollbacks) {
    const testing::TempDir other;
    const auto copy = other.path() / "m";
    write_file_atomic(copy, read_file(path, 10000));
    MetricsLog(copy, step, rollbacks).flush();
    const std::string text = read_file(copy, 10000);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines_left(10, 1), 3)
      << "the line of step 10, the event that was left, and the rollback";
  EXPECT_EQ(lines_left(15, 1), 4);
  EXPECT_EQ(lines_left(10, 0), 1) << "killed before the rollback was saved";
  EXPECT_EQ(lines_left(20, 2), 5);
}

TEST(DataWatch, DoesItsWorkAndThrowsWhatItThrows) {
  DataWatch watch;
  int done = 0, halves = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(watch.run([&] { ++done; }, 1000, [&] { ++halves; }));
  }
  EXPECT_THROW(watch.run([] { fail_data("broken"); }, 1000, [] {}), Error);
  EXPECT_TRUE(watch.run([&] { ++done; }, 1000, [&] { ++halves; }));
  EXPECT_EQ(done, 101);
  EXPECT_EQ(halves, 0);
}

TEST(DataWatch, LeavesWorkThatDoesNotEnd) {
  std::promise<void> gate, begun;
  const auto ended = std::make_shared<std::promise<void>>();
  {
    DataWatch watch;
    int halves = 0;
    EXPECT_FALSE(watch.run(
        [opened = gate.get_future().share(), &begun, ended] {
          begun.set_value();
          opened.wait();
          ended->set_value();
        },
        0.02,
        [&] {
          begun.get_future().wait();  // what had not begun would never end
          ++halves;
        }));
    EXPECT_EQ(halves, 1);
  }
  gate.set_value();
  ended->get_future().wait();
}

}  // namespace
}  // namespace tost
