// What happens during training, written to metrics.jsonl.
#pragma once

#include <filesystem>
#include <memory>

#include "tost/base/folder_place.h"
#include "tost/train/metrics_log.h"
#include "tost/train/train_listener.h"

namespace tost {

// Epochs count from 1 here, as for people. Throws a data Error where the run's folder is no longer
// in its place, rather than write to files that no one will find.
class RunLog {
 public:
  // Writes nothing: of a process that leaves the log to another.
  RunLog() = default;
  // Continues after first_step steps and so many rollbacks; lines logged beyond that are dropped.
  RunLog(const std::filesystem::path& run, int64_t first_step, int64_t rollbacks, std::string unit);

  // {"kind": "train", "step", "epoch", "loss", "accuracy", "lr", "UNIT_per_s", "wait_share"}
  void add_step(const StepReport& report);
  // {"kind": "eval", "step", "epoch", "best", and what the task's evaluation gave}
  void add_eval(const nlohmann::json& metrics);
  // {"kind": "sample", "step", "text"}; bytes that are not UTF-8 are replaced.
  void add_sample(int64_t step, const std::string& text);
  // {"kind": "bound", "step", "samples", "layers": [{"layer", "bound", "exact", "gap", ...}]}
  void add_bound(int64_t step, const nlohmann::json& measured);
  // {"kind": "event", "event", "step", "rollbacks", and what `facts` says}
  void add_event(const std::string& event, int64_t step, const nlohmann::json& facts);
  void flush();

 private:
  void add(const std::string& kind, int64_t step, nlohmann::json line);

  struct Files {
    FolderPlace place;
    MetricsLog metrics;
  };

  int64_t rollbacks_ = 0;
  std::string unit_;
  std::unique_ptr<Files> files_;  // null: nothing is written
};

}  // namespace tost
