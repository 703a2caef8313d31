// Callbacks for a caller that watches a training run, because the library prints nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tost/train/shared_step.h"

namespace tost {

struct StartReport {
  int64_t first_step = 0;  // above 0 when resumed
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
  int64_t parameters = 0;
  std::string unit;  // "images", "tokens"
};

struct StepReport {
  int64_t step = 0;  // steps done, 1 ... total_steps
  int64_t total_steps = 0;
  int64_t epoch = 0;    // the running one, from 0
  double loss = 0;      // mean since the last line of the log
  double accuracy = 0;  // the same, 0 ... 1; NaN where the task has none
  double lr = 0;
  double samples_per_s = 0;
  double wait_share = 0;                  // of the time, spent waiting for data, 0 ... 1
  double eta_s = 0;                       // training steps left; evaluations not counted
  std::optional<ShareReport> peers = {};  // of several processes, only in lines of the log
};

class TrainListener {
 public:
  virtual ~TrainListener() = default;
  virtual void on_start(const StartReport&) {}
  virtual void on_step(const StepReport&) {}
  // `metrics` is the result of the task's evaluation with "step", "epoch" (from 1) and "best".
  virtual void on_eval(const nlohmann::json& /*metrics*/, bool /*best*/) {}
  // Called with a sample of the model after `step` steps (TrainTask::sample).
  virtual void on_sample(int64_t /*step*/, const std::string& /*text*/) {}
  virtual void on_checkpoint(const std::filesystem::path&) {}
  virtual void on_message(const std::string& /*one sentence*/) {}
};

}  // namespace tost
