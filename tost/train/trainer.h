// The training loop: steps, evaluations, logs and checkpoints of any TrainTask.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>

#include "tost/train/adamw.h"
#include "tost/train/background_saver.h"
#include "tost/train/checkpoint_store.h"
#include "tost/train/ema.h"
#include "tost/train/loop_config.h"
#include "tost/train/loop_state.h"
#include "tost/train/run_log.h"
#include "tost/train/schedule.h"
#include "tost/train/step_timer.h"
#include "tost/train/train_listener.h"
#include "tost/train/train_task.h"

namespace tost {

struct TrainResult {
  int64_t step = 0, total_steps = 0;
  bool interrupted = false;
  nlohmann::json last_eval;  // null before the first evaluation of this process
  std::string metric;        // what `best` is a value of: the key of the task's best_metric()
  std::optional<BestSoFar> best;
  double seconds = 0;
};

// One process, one model, CPU. With the same seed and thread count the weights are the same bit for
// bit, whether the run was interrupted and resumed or not, wherever it was stopped.
class Trainer {
 public:
  // Everything outlives the trainer. `run` exists. `stop` may be null.
  Trainer(const LoopConfig& config, TrainTask& task, std::filesystem::path run,
          TrainListener& listener, const std::atomic<bool>* stop);

  // Takes up the newest whole checkpoint of the run; false when there is none. Restores weights,
  // buffers, moments, averaged weights, torch's CPU generator, sums of the log and the place in the
  // data. Before train().
  bool resume();

  // Trains to the end. When `stop` becomes true: finishes the step, saves a checkpoint and returns
  // with interrupted = true. A loss that is not finite is a data Error before it can reach the
  // weights.
  TrainResult train();

 private:
  int64_t total_steps() const { return schedule_.total_steps; }
  int64_t epoch() const { return state_.step / steps_per_epoch_; }
  bool stopped() const { return stop_ && stop_->load(); }

  void report_start();
  void step();
  void accumulate_gradients(double lr);
  void update(double lr);
  void report_step(double lr);
  bool evaluation_due() const;
  bool evaluate();  // false when stopped
  bool checkpoint_due() const;
  void save();
  void wait_for_saves();
  bool has_checkpoint();  // once no save is under way
  void sample();
  bool bound_due() const;
  void measure_bound();
  void pass_messages();

  LoopConfig config_;
  TrainTask& task_;
  std::filesystem::path run_;
  TrainListener& listener_;
  const std::atomic<bool>* stop_;

  int64_t steps_per_epoch_;
  Schedule schedule_;
  AdamW optimizer_;
  std::unique_ptr<Ema> ema_;
  CheckpointStore store_;
  BackgroundSaver saver_;
  std::unique_ptr<RunLog> log_;
  LoopState state_;
  StepTimer timer_;
  nlohmann::json last_eval_;
  bool in_epoch_ = false;     // the task stands at the place state_.step says
  bool unsaved_ = false;      // something happened since the last checkpoint
  bool best_is_new_ = false;  // and the evaluation of this step is the best so far
};

// Optimiser steps of an epoch; batches that do not fill a step are left out. Throws a usage Error
// for none.
int64_t steps_per_epoch(const LoopConfig& config, const TrainTask& task);

// Rates and lengths of a configuration, in steps.
Schedule make_schedule(const LoopConfig& config, int64_t steps_per_epoch,
                       int64_t samples_per_batch);

}  // namespace tost
