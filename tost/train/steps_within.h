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

// Trains with the task for about a fiftieth of `minutes`, evaluates for about as long, and returns
// the number of steps, at least one, that fit in the rest with their evaluations. Reserves a
// fifteenth for samples and checkpoints. The trial changes the task's model, so the run needs a new
// task. Returns nothing once `stop` is set. Throws as Trainer.
std::optional<int64_t> steps_within(double minutes, const LoopConfig& config, TrainTask& task,
                                    const std::atomic<bool>* stop,
                                    const SecondsClock& now = seconds_now);

}  // namespace tost
