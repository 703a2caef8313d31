// The training loop: steps, evaluations, logs and checkpoints of any TrainTask.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "tost/store/checkpoint_store.h"
#include "tost/train/adamw.h"
#include "tost/train/background_saver.h"
#include "tost/train/data_watch.h"
#include "tost/train/ema.h"
#include "tost/train/loop_config.h"
#include "tost/train/loop_state.h"
#include "tost/train/optimizer_shards.h"
#include "tost/train/run_log.h"
#include "tost/train/schedule.h"
#include "tost/train/shared_step.h"
#include "tost/train/train_task.h"
#include "tost/train/trainer_state.h"

namespace tost {

// The speed of a running loop, and the time until the end. Rates are averaged with a half-life of
// about 20 steps, so that they recover after an evaluation or a stall.
class StepTimer {
 public:
  // Excludes the time since the last step from the rates.
  void restart(double wait_seconds) {
    last_ = Clock::now();
    last_wait_ = wait_seconds;
  }
  void step(int64_t samples, double wait_seconds) {
    constexpr double kKeep = 0.966;  // 0.966^20 = 0.5
    const auto now = Clock::now();
    seconds_ = kKeep * seconds_ + std::chrono::duration<double>(now - last_).count();
    samples_ = kKeep * samples_ + double(samples);
    steps_ = kKeep * steps_ + 1;
    wait_ = kKeep * wait_ + (wait_seconds - last_wait_);
    last_ = now;
    last_wait_ = wait_seconds;
  }

  double samples_per_s() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }
  double seconds_per_step() const { return steps_ > 0 ? seconds_ / steps_ : 0; }
  double wait_share() const { return seconds_ > 0 ? wait_ / seconds_ : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  double last_wait_ = 0;
  double seconds_ = 0, samples_ = 0, steps_ = 0, wait_ = 0;  // decayed sums
};

// Counts over the whole run with all restarts, except data_waits, which counts in this process.
struct RunEvents {
  int64_t skipped_steps = 0, rollbacks = 0, data_waits = 0;
};

struct TrainResult {
  int64_t step = 0, total_steps = 0;
  bool interrupted = false;
  bool replaced_restored = false;  // interrupted before its first checkpoint: RunMode::kOverwrite
  nlohmann::json last_eval;        // null before the first evaluation of this process
  std::string metric;              // what `best` is a value of: the key of the task's best_metric()
  std::optional<BestSoFar> best;
  double seconds = 0;
  RunEvents events;
};

// Trains one model on its device. On the CPU, the same seed and number of threads give the same
// bits, also if the run is interrupted and resumed.
//
// Each process of a group has a trainer, which computes its share of every step (shared_step.h).
// Only process 0 reports and writes into the run's folder. The results depend on the number of
// processes only by rounding.
class Trainer {
 public:
  // Everything outlives the trainer. `run` exists. `stop` and `group` may be null.
  Trainer(const LoopConfig& config, TrainTask& task, std::filesystem::path run,
          TrainListener& listener, const std::atomic<bool>* stop, Group* group = nullptr);

  // Loads the newest complete checkpoint of the run; returns false if there is none. Restores
  // weights, buffers, moments, averaged weights, torch's generators, sums of the log and the
  // position in the data. Before train().
  bool resume();
  // Makes dropout draw random numbers as in a run of several processes (see LoopState). Before
  // train().
  void draw_noise_by_batch() { state_.noise_by_batch = true; }

  // Disables checkpoints, for a trial run. Before train().
  void save_nothing() { saves_ = false; }

  // Trains to the end. If `stop` becomes true, finishes the step, saves a
  // checkpoint and returns with interrupted = true. Throws a data Error for a loss or gradient norm
  // that is not finite, before the weights change, unless guards skip the step or roll back. Throws
  // a data Error for a state that is not finite, before it is evaluated or saved. Throws
  // DataTimeout, after saving the last complete step, if no batch arrives for data_timeout seconds.
  TrainResult train();

 private:
  int64_t total_steps() const { return schedule_.total_steps; }
  int64_t epoch() const { return state_.step / steps_per_epoch_; }
  // The position in the data in steps; larger than the step if batches were skipped.
  int64_t data_step() const { return state_.step + state_.guards.data_ahead; }
  double rate() const;
  // Whether any process was stopped by the user up to the last step.
  bool stopped() const { return shared_ ? stop_agreed_ : stop_ && stop_->load(); }

  struct StepSums {
    double loss = 0;
    int64_t samples = 0, correct = 0;
  };
  // The result of a batch whose gradient was added (see MicroBatch).
  struct Batch {
    double loss = 0;
    int64_t samples = 0, correct = -1;
    double weight = 1;
  };

  bool first() const { return is_first(group_); }
  void open_log();
  void report_start();
  void step();
  std::optional<BadStep> accumulate_gradients(StepSums& sums);
  void add_up(StepSums& sums);
  void seed_noise(int64_t batch) const;
  Batch add_batch();
  void update(double lr, double norm, const StepSums& sums);
  void report_step(double lr);
  void warn_of_waiting(double wait_share);
  bool evaluation_due() const;
  bool evaluate();  // false when stopped
  // Evaluates the averaged weights, or else those of the model, with the time limit for data.
  std::optional<nlohmann::json> scored(const StateDict& average,
                                       const std::function<std::optional<nlohmann::json>()>& score);
  bool checkpoint_due() const;
  // Makes the content of a checkpoint; with shards, only the part of this process.
  Checkpoint checkpoint() const;
  int64_t rollback_checkpoint() const {
    return config_.rollbacks > 0 ? state_.guards.rollback_step : -1;
  }
  StateDict averaged_values() const;    // the values that are averaged
  StateDict evaluated_weights() const;  // empty: the model's
  void save();
  void write_checkpoint(bool in_background);
  void save_shards();
  void load_shards(const std::filesystem::path& folder);
  void send_state();  // of process 0 to all
  void load(const Restored& restored);
  void report_shards();
  bool restore_newest(int64_t last_step);
  void wait_for_saves();
  void finish_saves();    // the same; a failure becomes a message
  bool has_checkpoint();  // once no save is under way
  void sample();
  bool bound_due() const;
  void measure_bound();
  void pass_messages();

  // trainer_guards.cc
  bool skip_step(const BadStep& bad, double lr);  // false where the run was rolled back
  bool state_is_finite();                         // the same
  void report_skipped(const BadStep& bad, double lr);
  // Rolls back and skips batches up to the step `failed`; returns false if there is no checkpoint.
  bool roll_back(int64_t failed, const std::string& reason);
  std::string stop_notice();
  void load_batch(bool starts_epoch);
  bool read_in_time(std::function<void()> reading);
  void report_wait();
  [[noreturn]] void end_waiting(bool in_step);

  LoopConfig config_;
  TrainTask& task_;
  std::filesystem::path run_;
  TrainListener& listener_;
  const std::atomic<bool>* stop_;
  Group* group_;
  const torch::Device device_;

  int64_t steps_per_epoch_;
  Schedule schedule_;
  std::unique_ptr<SharedStep> shared_;       // null: of one process
  std::unique_ptr<OptimizerShards> shards_;  // null: every process has the whole optimiser
  AdamW optimizer_;
  std::unique_ptr<Ema> ema_;
  // Only on process 0.
  std::optional<CheckpointStore> store_;
  std::optional<BackgroundSaver> saver_;
  std::unique_ptr<RunLog> log_;
  LoopState state_;
  StepTimer timer_;
  bool saves_ = true;
  std::unique_ptr<DataWatch> watch_;
  std::optional<StepStart> start_;  // of the running step, where a guard may need it
  int64_t data_waits_ = 0;
  int64_t waiting_lines_ = 0;  // of the log, in a row, with a high share of waiting
  nlohmann::json last_eval_;
  bool restored_ = false;
  bool in_epoch_ = false;     // the task is at the position data_step()
  bool stop_agreed_ = false;  // among the processes of the group
  bool unsaved_ = false;      // something changed since the last checkpoint
  bool best_is_new_ = false;  // and the evaluation of this step is the best so far
};

// The number of optimiser steps of an epoch; batches that do not fill a step are left out. Throws a
// usage Error if there is no step.
int64_t steps_per_epoch(const LoopConfig& config, const TrainTask& task);

// Converts the rates and lengths of a configuration to a schedule in steps.
Schedule make_schedule(const LoopConfig& config, int64_t steps_per_epoch,
                       int64_t samples_per_batch);

}  // namespace tost
