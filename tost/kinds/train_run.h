// Trains from settings to a finished run folder: the call that `tost train` makes.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>

#include "tost/comm/group.h"
#include "tost/train/run_folder.h"
#include "tost/train/trainer.h"

namespace tost {

struct TrainRun {
  std::filesystem::path out;
  RunMode mode = RunMode::kNew;
  nlohmann::json values =
      nlohmann::json::object();  // config file merged with flags; kResume: the changes
  // The group of processes that train together and all make this call; null: one process.
  Group* group = nullptr;
  // The name of the launch, on process 0; empty: none. A run in `out` that the same launch made is
  // resumed in every mode.
  std::string launch = {};
  // Draws random numbers as with a group, to repeat its run in one process; see LoopState.
  bool noise_by_batch = false;
  std::string build = {};  // of the program, which must be the same in all processes
};

// The values (see choose_run_kind), or the folder of a resumed run, select the kind. Layout of the
// folder: tost/store/run_layout.h. Throws usage and data Errors as described at the configurations,
// RunFolder, the tasks and Trainer. A new run that fails before its first step leaves no folder, or
// the run that it was meant to replace.
TrainResult train(const TrainRun& run, TrainListener& listener,
                  const std::atomic<bool>* stop = nullptr);

// The number of steps that the new run, of one process, can take in about `minutes` on this
// machine, by steps_within(). Nothing once `stop` is set. Throws as train(); writes nothing to the
// run's folder.
std::optional<int64_t> steps_of_time(const TrainRun& run, double minutes,
                                     const std::atomic<bool>* stop);

}  // namespace tost
