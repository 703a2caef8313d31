// Writes the events of training to metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/file.h"
#include "tost/base/folder_lock.h"
#include "tost/train/train_task.h"

namespace tost {

// The file metrics.jsonl: a JSON object per line, in the order of events.
class MetricsLog {
 public:
  // Opens the file for appending. First drops an unfinished last line, and lines whose "step" is
  // above last_step except events of earlier rollbacks. The file then equals that of an
  // uninterrupted run at last_step. The rewrite is atomic and reads the file in pieces. Throws a
  // data Error naming file and line for wrong content.
  MetricsLog(const std::filesystem::path& path, int64_t last_step, int64_t rollbacks = 0,
             size_t piece_bytes = size_t{1} << 20);

  void add(const nlohmann::json& line);  // an object with an integer "step"
  void flush();

 private:
  OutputFile file_;
};

// The log of a run, in which epochs count from 1. Throws a data Error if the run's folder was
// moved.
class RunLog {
 public:
  // Makes a log that writes nothing, for all processes but the first.
  RunLog() = default;
  // Continues the log after `first_step` steps and `rollbacks` rollbacks; later lines are dropped.
  RunLog(const std::filesystem::path& run, int64_t first_step, int64_t rollbacks, std::string unit);

  // Writes {"kind": "train", "step", "epoch", "loss", "accuracy", "lr", "UNIT_per_s",
  // "wait_share"}.
  void add_step(const StepReport& report);
  // Writes {"kind": "eval", "step", "epoch", "best", and the values of the task's evaluation}.
  void add_eval(const nlohmann::json& metrics);
  // Writes {"kind": "sample", "step", "text"}; bytes that are not UTF-8 are replaced.
  void add_sample(int64_t step, const std::string& text);
  // Writes {"kind": "bound", "step", "samples", "layers": [{"layer", "bound", "exact", ...}]}.
  void add_bound(int64_t step, const nlohmann::json& measured);
  // Writes {"kind": "event", "event", "step", "rollbacks", and the members of `facts`}.
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
