// A training run from settings to a finished run folder: the call that `tost train` makes.
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
  // The group of processes that train together, all of which call train(); null: one process.
  Group* group = nullptr;
  // The name of the launch, known on process 0; empty if there is none. A run in `out` from the
  // same launch is resumed in every mode.
  std::string launch = {};
  // Makes one process draw random numbers as the processes of a group do (see LoopState).
  bool noise_by_batch = false;
  std::string build = {};  // of the program, which must be the same in all processes
};

// The values (see choose_run_kind), or the folder of a resumed run, select the kind. The folder has
// the layout of tost/engine/run_layout.h. Throws the usage and data Errors of the configurations,
// RunFolder, the tasks and Trainer. A new run that fails before its first step leaves no folder, or
// leaves the run that it would replace.
TrainResult train(const TrainRun& run, TrainListener& listener,
                  const std::atomic<bool>* stop = nullptr);

// The number of steps that a new run of one process can take in about `minutes` on this machine, by
// steps_within(). Returns nothing if `stop` is set. Throws the Errors of train(); does not change
// the run's folder.
std::optional<int64_t> steps_of_time(const TrainRun& run, double minutes,
                                     const std::atomic<bool>* stop);

}  // namespace tost
