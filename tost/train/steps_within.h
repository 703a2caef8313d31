// How many steps of a training fit in a given time.
#pragma once

#include <atomic>
#include <optional>

#include "tost/train/loop_config.h"
#include "tost/train/train_task.h"

namespace tost {

// Takes steps with the task for about a fiftieth of `minutes`, in a folder that vanishes, and
// counts how many such steps fill the rest: at least one. A fifteenth is left for evaluations and
// checkpoints. The task's model and data have then moved on; a run begins with a new task. Nothing
// once `stop` is set. Throws as Trainer.
std::optional<int64_t> steps_within(double minutes, const LoopConfig& config, TrainTask& task,
                                    const std::atomic<bool>* stop);

}  // namespace tost
