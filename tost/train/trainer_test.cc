#include "tost/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/errors.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/nn/state_dict.h"
#include "tost/train/trainer_test_util.h"

namespace tost {
namespace trainer_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::expect_same_checkpoint;
using testing::log_lines;
using testing::ToyTask;

LoopConfig config() {
  return testing::toy_config();
}

TrainResult run(const fs::path& folder, ToyTask& task, const LoopConfig& c,
                const std::atomic<bool>* stop = nullptr) {
  return testing::run_toy(folder, task, c, stop);
}

// Steps 1 to 23 of 24, in and at the ends of epochs, each stop in a process state of its own.
TEST(Trainer, SlowResumedEqualsUninterruptedBitForBit) {
  const testing::TempDir whole;
  ToyTask task(5);
  const TrainResult reference = run(whole.path(), task, config());
  EXPECT_EQ(reference.step, 24);
  EXPECT_FALSE(reference.interrupted);
  for (const int64_t stop_at : {1, 3, 5, 6, 7, 11, 12, 20, 23}) {
    const testing::TempDir parts;
    std::atomic<bool> stop = false;
    ToyTask first(5);
    first.before_batch = [&](int64_t number) { stop = number + 1 >= stop_at; };
    const TrainResult half = run(parts.path(), first, config(), &stop);
    EXPECT_TRUE(half.interrupted);
    EXPECT_EQ(half.step, stop_at);
    torch::manual_seed(999);  // the generator's state must come from the checkpoint
    ToyTask second(5);
    EXPECT_EQ(run(parts.path(), second, config()).step, 24);
    expect_same_checkpoint(whole.path(), parts.path());
    EXPECT_EQ(log_lines(whole.path()), log_lines(parts.path())) << "stopped at " << stop_at;
  }
}

// Three steps an epoch of seven batches: the seventh is left out, and a resume must count batches,
// not steps.
TEST(Trainer, ResumedWithAccumulationAndBf16EqualsUninterrupted) {
  LoopConfig c = config();
  c.accumulate = 2;
  c.precision = Precision::kBf16;
  const testing::TempDir whole, parts;
  ToyTask task(5, 8, 7);
  EXPECT_EQ(run(whole.path(), task, c).step, 12);
  std::atomic<bool> stop = false;
  ToyTask first(5, 8, 7);
  first.before_batch = [&](int64_t number) { stop = number >= 9; };
  EXPECT_EQ(run(parts.path(), first, c, &stop).step, 5);
  ToyTask second(5, 8, 7);
  run(parts.path(), second, c);
  expect_same_checkpoint(whole.path(), parts.path());
  EXPECT_EQ(log_lines(whole.path()), log_lines(parts.path()));
}

// A killed process has logged more than its last checkpoint holds.
TEST(Trainer, ResumesFromAnOlderCheckpointWithoutDoubleLogLines) {
  const testing::TempDir whole, killed;
  ToyTask task(6);
  run(whole.path(), task, config());
  ToyTask first(6);
  first.before_batch = [](int64_t number) {
    if (number == 17) throw std::runtime_error("killed");
  };
  EXPECT_THROW(run(killed.path(), first, config()), std::runtime_error);
  EXPECT_EQ(log_lines(killed.path()).back()["step"], 16);
  ToyTask second(6);
  run(killed.path(), second, config());
  expect_same_checkpoint(whole.path(), killed.path());
  EXPECT_EQ(log_lines(whole.path()), log_lines(killed.path()));
}

TEST(Trainer, StoppedInAnEvaluationItIsDoneAfterTheResume) {
  const testing::TempDir whole, parts;
  ToyTask task(7);
  run(whole.path(), task, config());
  std::atomic<bool> stop = false;
  ToyTask first(7);
  first.before_eval = [&] { stop = true; };
  EXPECT_TRUE(run(parts.path(), first, config(), &stop).interrupted);
  EXPECT_EQ(log_lines(parts.path()).back()["kind"], "train");
  ToyTask second(7);
  run(parts.path(), second, config());
  expect_same_checkpoint(whole.path(), parts.path());
  EXPECT_EQ(log_lines(whole.path()), log_lines(parts.path()));
}

TEST(Trainer, NonFiniteLossStopsAndKeepsTheLastCheckpoint) {
  for (const double value : {std::nan(""), double(INFINITY)}) {
    const testing::TempDir dir;
    ToyTask task(8);
    task.change_loss = [&](int64_t number, torch::Tensor loss) {
      return number == 9 ? loss * value : loss;
    };
    try {
      run(dir.path(), task, config());
      FAIL() << "must stop";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find("step 10"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("checkpoint is kept"), std::string::npos)
          << error.what();
    }
    for (const auto& p : task.model().parameters()) EXPECT_TRUE(p.isfinite().all().item<bool>());
    std::vector<std::string> messages;
    EXPECT_EQ(CheckpointStore(dir.path() / kCheckpointFolder, 9).load_newest(messages)->step, 6);
  }
}

// With a checkpoint after every step, and also where only the check needs the norm.
TEST(Trainer, NonFiniteGradientReachesNeitherWeightsNorCheckpoints) {
  for (const double clip : {1.0, 0.0}) {
    const testing::TempDir dir;
    ToyTask task(8);
    task.change_loss = [](int64_t number, torch::Tensor loss) {
      return number == 2 ? loss + (loss - loss.detach()).sqrt()
                         : loss;  // finite, with an infinite slope
    };
    LoopConfig c = config();
    c.clip = clip;
    c.checkpoint_every_steps = 1;
    const std::string message = testing::data_error_of([&] { run(dir.path(), task, c); });
    EXPECT_NE(message.find("The gradient norm became nan at step 3"), std::string::npos) << message;
    for (const auto& p : task.model().parameters()) EXPECT_TRUE(p.isfinite().all().item<bool>());
    const Checkpoint last = testing::newest_checkpoint(dir.path());
    EXPECT_EQ(last.step, 2);
    EXPECT_EQ(first_not_finite(last), std::nullopt);
  }
}

// The statistics of batch norm, which no gradient tells of and training does not use.
TEST(Trainer, AStateThatIsNotFiniteIsNeitherSavedNorTheBest) {
  for (const int64_t rollbacks : {0, 1}) {
    const testing::TempDir dir;
    ToyTask task(8);
    task.before_batch = [&task](int64_t number) {
      if (number == 9) task.model().named_buffers()["1.running_mean"].fill_(INFINITY);
    };
    LoopConfig c = config();
    c.rollbacks = rollbacks;
    if (rollbacks == 0) {
      const std::string message = testing::data_error_of([&] { run(dir.path(), task, c); });
      EXPECT_NE(message.find("After step 12, tensor '1.running_mean' of model.safetensors"),
                std::string::npos)
          << message;
      EXPECT_NE(message.find("checkpoint is kept"), std::string::npos) << message;
    } else {
      EXPECT_EQ(run(dir.path(), task, c).events.rollbacks, 1);
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < 30; ++i) expected.push_back(i);  // 6 to 11 are lost
      EXPECT_EQ(task.taken, expected);
    }
    const Checkpoint last = testing::newest_checkpoint(dir.path());
    EXPECT_EQ(last.step, rollbacks == 0 ? 6 : 24);
    EXPECT_EQ(first_not_finite(last), std::nullopt);
    for (const json& line : log_lines(dir.path())) {
      EXPECT_TRUE(line["kind"] != "eval" || line["loss"].is_number()) << line;
    }
  }
}

// As a model gives that overflows in an evaluation alone.
TEST(Trainer, AnEvaluationThatIsNoNumberIsWorseThanAnyNumber) {
  const testing::TempDir dir;
  LoopConfig c = config();
  std::atomic<bool> stop = false;
  ToyTask first(7);
  first.change_eval = [](double) { return std::nan(""); };
  first.before_batch = [&](int64_t number) { stop = number == 7; };
  EXPECT_EQ(run(dir.path(), first, c, &stop).best, std::nullopt);
  ToyTask second(7);
  int evaluations = 0;
  second.change_eval = [&](double loss) { return ++evaluations == 2 ? std::nan("") : loss; };
  const TrainResult result = run(dir.path(), second, c);
  EXPECT_EQ(result.step, 24);
  ASSERT_TRUE(result.best);
  EXPECT_TRUE(std::isfinite(result.best->value));
  std::vector<json> best;
  for (const json& line : log_lines(dir.path())) {
    if (line["kind"] == "eval") best.push_back(line["best"]);
  }
  EXPECT_EQ(best, (std::vector<json>{false, true, false, best[3]}));
}

// What earlier versions left where their first evaluation was not a number.
TEST(LoopState, ABestValueOfNullIsNone) {
  LoopState state;
  state.best = BestSoFar{std::nan(""), 6};
  const auto read = [](const LoopState& s) {
    return loop_state_from_json(json::parse(to_json(s).dump()), "it").best;
  };
  EXPECT_FALSE(read(state));
  state.best->value = 0.5;
  ASSERT_TRUE(read(state));
  EXPECT_EQ(read(state)->value, 0.5);
}

TEST(Trainer, AccumulationEqualsTheLargeBatch) {
  const auto train = [](int64_t batch, int64_t accumulate) {
    const testing::TempDir dir;
    ToyTask task(9, batch, accumulate, /*noisy=*/false);
    LoopConfig c;
    c.epochs = 10;
    c.lr = 0.02;
    c.accumulate = accumulate;
    at::set_num_threads(1);
    TrainListener listener;
    Trainer(c, task, dir.path(), listener, nullptr).train();
    StateDict weights;
    for (const auto& [name, value] : state_dict(task.model())) weights[name] = value.clone();
    return weights;
  };
  const StateDict one = train(12, 1), four = train(3, 4);
  for (const auto& [name, value] : one) {
    EXPECT_TRUE(torch::allclose(value, four.at(name), 1e-4, 1e-6)) << name;
  }
}

TEST(Trainer, MoreBatchesAStepThanAnEpochHasIsRefused) {
  const testing::TempDir dir;
  ToyTask task(1);
  LoopConfig c;
  c.accumulate = 7;
  TrainListener listener;
  EXPECT_THROW(Trainer(c, task, dir.path(), listener, nullptr), Error);
}

struct Recorder : TrainListener {
  std::vector<StepReport> steps;
  std::vector<json> evals;
  std::vector<bool> best;
  int checkpoints = 0;
  StartReport start;
  void on_start(const StartReport& report) override { start = report; }
  void on_step(const StepReport& report) override { steps.push_back(report); }
  void on_eval(const json& metrics, bool is_best) override {
    evals.push_back(metrics);
    best.push_back(is_best);
  }
  void on_checkpoint(const fs::path&) override { ++checkpoints; }
};

TEST(Trainer, ReportsToItsListenerAndLearns) {
  const testing::TempDir dir;
  ToyTask task(4);
  LoopConfig c = config();
  c.epochs = 30;
  c.evaluate_every = 10;
  c.checkpoint_every = 1000;
  at::set_num_threads(1);
  Recorder recorder;
  Trainer trainer(c, task, dir.path(), recorder, nullptr);
  const TrainResult result = trainer.train();
  EXPECT_EQ(recorder.start.total_steps, 180);
  EXPECT_EQ(recorder.start.parameters, 4 * 16 + 16 + 32 + 16 + 1);
  ASSERT_EQ(recorder.steps.size(), 180u);
  EXPECT_EQ(recorder.steps[6].epoch, 1);
  ASSERT_EQ(recorder.evals.size(), 3u);
  EXPECT_TRUE(recorder.best[0]);
  EXPECT_LT(recorder.evals[2]["loss"].get<double>(), 0.7 * recorder.steps[3].loss);
  EXPECT_EQ(result.last_eval, recorder.evals[2]);
  EXPECT_GE(recorder.checkpoints, 1);
  EXPECT_LE(recorder.checkpoints, 3) << "only better evaluations and the end are saved";
  EXPECT_TRUE(task.model().is_training());
}

TEST(Trainer, ATrialSavesNothing) {
  const testing::TempDir dir;
  ToyTask task(5);
  LoopConfig c = testing::toy_config();
  c.checkpoint_every_steps = 1;
  TrainListener listener;
  Trainer trainer(c, task, dir.path(), listener, nullptr);
  trainer.save_nothing();
  EXPECT_EQ(trainer.train().step, 24);
  EXPECT_TRUE(checkpoint_folders(dir.path() / kCheckpointFolder).empty());
}

}  // namespace trainer_test
}  // namespace tost
