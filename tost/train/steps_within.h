// Computes how many training steps fit in a given time.
#pragma once

#include <atomic>
#include <functional>
#include <optional>

#include "tost/train/loop_config.h"
#include "tost/train/train_task.h"

namespace tost {

// Seconds since some moment.
using SecondsClock = std::function<double()>;
double seconds_now();

// Takes steps with the task for about a fiftieth of `minutes`, evaluates for about as long, and
// returns how many such steps, with the configured evaluations, fill the rest: at least one. A
// fifteenth is left for samples and checkpoints, of which the trial writes none. The task's model
// and data have then moved on; a run begins with a new task. Nothing once `stop` is set. Throws as
// Trainer.
std::optional<int64_t> steps_within(double minutes, const LoopConfig& config, TrainTask& task,
                                    const std::atomic<bool>* stop,
                                    const SecondsClock& now = seconds_now);

struct RunCosts {
  double step = 0, evaluation = 0;  // seconds
  int64_t steps_apart = 1;          // of evaluations, one of which also follows the last step
};

// The most steps, at least one, that take no more than `seconds` with their evaluations.
int64_t fitting_steps(double seconds, const RunCosts& costs);

}  // namespace tost
