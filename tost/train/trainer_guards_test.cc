// Bad steps, rollbacks and missing batches in runs of the toy task.
#include <cmath>
#include <future>
#include <set>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/train/trainer_test_util.h"

namespace tost {
namespace trainer_guards_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::data_error_of;
using testing::expect_same_checkpoint;
using testing::log_lines;
using testing::run_toy;
using testing::ToyTask;

// Ten epochs of six steps, so that there are enough steps to compare with.
LoopConfig config() {
  LoopConfig c = testing::toy_config();
  c.epochs = 10;
  c.lr = 0.01;
  c.outlier_z = 20;
  c.outlier_limit = 2;
  c.rollback_lr = 0.5;
  return c;
}

// Multiplies the loss of the batches at these places of the stream.
void spoil(ToyTask& task, std::set<int64_t> places, double factor) {
  task.change_loss = [&task, places, factor](int64_t, torch::Tensor loss) {
    return places.contains(task.taken.back()) ? loss * factor : loss;
  };
}

std::vector<json> events(const fs::path& run) {
  std::vector<json> found;
  for (const json& line : log_lines(run)) {
    if (line["kind"] == "event") found.push_back(line);
  }
  return found;
}

TEST(TrainerGuards, SlowASpikeIsSkippedAndNothingElse) {
  const testing::TempDir spiked, broken;
  ToyTask task(5);
  spoil(task, {40}, 1e4);
  EXPECT_EQ(run_toy(spiked.path(), task, config()).events.skipped_steps, 1);
  const std::vector<json> found = events(spiked.path());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["event"], "skipped_step");
  EXPECT_EQ(found[0]["step"], 41);
  EXPECT_EQ(found[0]["what"], "loss");
  EXPECT_GT(found[0]["z"].get<double>(), 20);
  const Checkpoint last = testing::newest_checkpoint(spiked.path());
  EXPECT_EQ(last.step, 60);
  EXPECT_EQ(last.parts[2].tensors.at("step.0.weight").item<float>(), 59);
  // What the batch held does not matter.
  ToyTask other(5);
  spoil(other, {40}, std::nan(""));
  run_toy(broken.path(), other, config());
  expect_same_checkpoint(spiked.path(), broken.path());
  EXPECT_EQ(events(broken.path())[0]["value"], "nan");
}

TEST(TrainerGuards, ASteepGradientIsSkippedToo) {
  const testing::TempDir dir;
  ToyTask task(5);
  task.change_loss = [&](int64_t number, torch::Tensor loss) {
    return number == 40 ? loss + 1e4 * (loss - loss.detach()) : loss;
  };
  EXPECT_EQ(run_toy(dir.path(), task, config()).events.skipped_steps, 1);
  EXPECT_EQ(events(dir.path())[0]["what"], "gradient norm");
}

// Batch norm has seen the batch when its loss is known.
TEST(TrainerGuards, BuffersDoNotKeepASkippedBatch) {
  const testing::TempDir dir;
  ToyTask task(5);
  std::vector<torch::Tensor> before;
  bool same = false;
  task.before_batch = [&](int64_t number) {
    std::vector<torch::Tensor> now;
    for (const auto& buffer : task.model().buffers()) now.push_back(buffer.clone());
    if (number == 41) {
      same = now.size() == 3;
      for (size_t i = 0; i < now.size(); ++i) same = same && torch::equal(now[i], before[i]);
    }
    before = now;
  };
  spoil(task, {40}, std::nan(""));
  run_toy(dir.path(), task, config());
  EXPECT_TRUE(same);
}

TEST(TrainerGuards, SlowGuardsThatMeetNothingChangeNothing) {
  const testing::TempDir off, on;
  LoopConfig c = config();
  c.clip = 0;
  c.outlier_z = 0;
  ToyTask a(5);  // seeds torch's generator, as the next one does again
  run_toy(off.path(), a, c);
  c.outlier_z = 1e6;
  c.rollbacks = 3;
  c.data_timeout = 1e6;
  ToyTask b(5);
  const TrainResult result = run_toy(on.path(), b, c);
  EXPECT_EQ(result.events.skipped_steps + result.events.rollbacks + result.events.data_waits, 0);
  expect_same_checkpoint(off.path(), on.path(), /*state=*/false);
  EXPECT_EQ(log_lines(off.path()), log_lines(on.path()));
}

TEST(TrainerGuards, TooManyInARowEndTheRun) {
  const testing::TempDir dir;
  ToyTask task(5);
  spoil(task, {40, 41, 43, 44, 45, 46}, std::nan(""));
  const std::string message = data_error_of([&] { run_toy(dir.path(), task, config()); });
  EXPECT_NE(message.find("At step 46, 3 steps in a row"), std::string::npos) << message;
  EXPECT_NE(message.find("outlier_limit 2"), std::string::npos) << message;
  EXPECT_EQ(events(dir.path()).size(), 5u) << "40, 41, and 43 to 45";
}

TEST(TrainerGuards, ARollbackPassesTheBatchesOverAtHalfTheRate) {
  const testing::TempDir dir;
  LoopConfig c = config();
  c.epochs = 4;
  c.outlier_z = 0;
  c.rollbacks = 1;
  ToyTask task(5);
  spoil(task, {9}, std::nan(""));
  const TrainResult result = run_toy(dir.path(), task, c);
  EXPECT_EQ(result.step, 24);
  EXPECT_EQ(result.events.rollbacks, 1);
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 28; ++i) expected.push_back(i);  // 6 to 9 are lost, none comes twice
  EXPECT_EQ(task.taken, expected);
  ASSERT_EQ(events(dir.path()).size(), 1u);
  const json event = events(dir.path())[0];
  EXPECT_EQ(event["event"], "rollback");
  EXPECT_EQ(event["from"], 10);
  EXPECT_EQ(event["to"], 6);
  const Schedule schedule = make_schedule(c, 6, 8);
  EXPECT_DOUBLE_EQ(event["lr"].get<double>(), learning_rate(schedule, 6) / 2);
  for (const json& line : log_lines(dir.path())) {
    if (line["kind"] != "train") continue;
    const double usual = learning_rate(schedule, line["step"].get<int64_t>() - 1);
    EXPECT_DOUBLE_EQ(line["lr"].get<double>(), line["step"] > 6 ? usual / 2 : usual);
  }
}

TEST(TrainerGuards, RollbacksComeToAnEnd) {
  const testing::TempDir dir;
  LoopConfig c = config();
  c.rollbacks = 2;
  ToyTask task(5);
  std::set<int64_t> all;
  for (int64_t i = 40; i < 100; ++i) all.insert(i);
  spoil(task, all, std::nan(""));
  const std::string message = data_error_of([&] { run_toy(dir.path(), task, c); });
  EXPECT_NE(message.find("2 rollbacks"), std::string::npos) << message;
  EXPECT_EQ(events(dir.path()).size(), 3u * 3 + 2);
  EXPECT_EQ(testing::newest_checkpoint(dir.path()).state["guards"]["lr_factor"], 0.25);
}

TEST(TrainerGuards, WithoutACheckpointThereIsNothingToGoBackTo) {
  const testing::TempDir dir;
  LoopConfig c = config();
  c.outlier_z = 0;
  c.rollbacks = 5;
  ToyTask task(5);
  spoil(task, {3}, std::nan(""));
  const std::string message = data_error_of([&] { run_toy(dir.path(), task, c); });
  EXPECT_NE(message.find("step 4"), std::string::npos) << message;
  EXPECT_NE(message.find("no checkpoint yet"), std::string::npos) << message;
}

// A spike at 40, and three in a row from 51: with the checkpoint of step 48 alone kept, and stops
// before, inside and after the stretch that is left.
TEST(TrainerGuards, SlowResumedEqualsUninterrupted) {
  LoopConfig c = config();
  c.rollbacks = 1;
  c.keep_last = 1;
  const testing::TempDir whole;
  ToyTask task(5);
  const auto spoils = [](int64_t place) { return place == 40 || (place >= 51 && place <= 53); };
  task.change_loss = [&](int64_t, torch::Tensor loss) {
    return spoils(task.taken.back()) ? loss * std::nan("") : loss;
  };
  const TrainResult reference = run_toy(whole.path(), task, c);
  EXPECT_EQ(reference.events.skipped_steps, 4);
  EXPECT_EQ(reference.events.rollbacks, 1);
  for (const int64_t stop_at : {30, 40, 49, 51, 52, 53, 54, 58}) {
    const testing::TempDir parts;
    std::atomic<bool> stop = false;
    ToyTask first(5), second(5);
    for (ToyTask* part : {&first, &second}) {
      part->change_loss = [&, part](int64_t, torch::Tensor loss) {
        if (part == &first) stop = part->taken.back() == stop_at;
        return spoils(part->taken.back()) ? loss * std::nan("") : loss;
      };
    }
    EXPECT_TRUE(run_toy(parts.path(), first, c, &stop).interrupted);
    EXPECT_EQ(run_toy(parts.path(), second, c).step, 60);
    expect_same_checkpoint(whole.path(), parts.path());
    EXPECT_EQ(log_lines(whole.path()), log_lines(parts.path())) << "stopped at " << stop_at;
  }
}

// Seconds: longer than a reader that is well takes on a busy machine.
constexpr double kPatience = 4;

// A reader that never comes back. The second time it happens between the two batches of a step.
TEST(TrainerGuards, SlowAStuckReaderEndsTheRunAndNothingIsLost) {
  for (const int64_t accumulate : {1, 2}) {
    LoopConfig c = config();
    c.epochs = 4;
    c.accumulate = accumulate;
    const testing::TempDir whole, stuck;
    ToyTask task(5), rest(5);
    run_toy(whole.path(), task, c);
    // Neither is ever freed: the reader holds on to them.
    auto* never = new std::promise<void>;
    auto* reader = new ToyTask(5);
    reader->before_batch = [never](int64_t number) {
      if (number == 9) never->get_future().wait();
    };
    c.data_timeout = kPatience;
    const std::string message = data_error_of([&] { run_toy(stuck.path(), *reader, c); });
    EXPECT_NE(message.find(cat(kPatience, " s")), std::string::npos) << message;
    const int64_t step = 9 / accumulate;
    EXPECT_NE(message.find(cat("saved after step ", step)), std::string::npos) << message;
    EXPECT_EQ(testing::newest_checkpoint(stuck.path()).step, step);
    const std::vector<json> found = events(stuck.path());
    ASSERT_GE(found.size(), 2u);
    EXPECT_EQ(found[found.size() - 2]["event"], "data_wait");
    EXPECT_EQ(found.back()["event"], "data_timeout");
    c.data_timeout = 0;
    run_toy(stuck.path(), rest, c);
    expect_same_checkpoint(whole.path(), stuck.path());
  }
}

// The same in an evaluation, of averaged weights, which must not be taken for the model's.
TEST(TrainerGuards, SlowAStuckEvaluationEndsTheRunAndNothingIsLost) {
  LoopConfig c = config();
  c.epochs = 4;
  ASSERT_TRUE(c.evaluate_ema);
  const testing::TempDir whole, stuck;
  ToyTask task(5), rest(5);
  run_toy(whole.path(), task, c);
  auto* never = new std::promise<void>;  // neither is ever freed, as above
  auto* reader = new ToyTask(5);
  int evaluations = 0;
  reader->before_eval_read = [&evaluations, never] {
    if (++evaluations == 2) never->get_future().wait();
  };
  c.data_timeout = kPatience;
  const std::string message = data_error_of([&] { run_toy(stuck.path(), *reader, c); });
  EXPECT_NE(message.find("in the evaluation after step 12"), std::string::npos) << message;
  EXPECT_NE(message.find("saved after step 12"), std::string::npos) << message;
  EXPECT_EQ(testing::newest_checkpoint(stuck.path()).step, 12);
  const std::vector<json> found = events(stuck.path());
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[found.size() - 2]["event"], "data_wait");
  EXPECT_EQ(found.back()["event"], "data_timeout");
  c.data_timeout = 0;
  run_toy(stuck.path(), rest, c);
  expect_same_checkpoint(whole.path(), stuck.path());
}

}  // namespace trainer_guards_test
}  // namespace tost
