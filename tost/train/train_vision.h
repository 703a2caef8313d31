// A vision training run from a configuration to a finished run folder: the call behind `tost
// train`.
#pragma once

#include <atomic>
#include <filesystem>

#include "tost/train/run_folder.h"
#include "tost/train/train_config.h"
#include "tost/train/trainer.h"

namespace tost {

struct VisionRun {
  std::filesystem::path out;
  RunMode mode = RunMode::kNew;
  nlohmann::json values =
      nlohmann::json::object();  // config file merged with flags; kResume: what is to change
};

// Layout of the folder: tost/eval/run_layout.h. Throws usage and data Errors as described at
// TrainConfig, open_run_folder, VisionTask and Trainer. A new run that fails before its first step
// leaves no folder behind.
TrainResult train_vision(const VisionRun& run, TrainListener& listener,
                         const std::atomic<bool>* stop = nullptr);

}  // namespace tost
