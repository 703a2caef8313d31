// Writes the events of training to metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "tost/base/file.h"
#include "tost/base/folder_lock.h"
#include "tost/train/train_listener.h"

namespace tost {

// metrics.jsonl: one JSON object a line, in the order things happened.
class MetricsLog {
 public:
  // Opens for appending. Lines whose "step" is above last_step are dropped first, and so is a last
  // line that a killed process left unfinished: after a resume the file is what an uninterrupted
  // run had written at that step. After `rollbacks` rollbacks, events written before the last one
  // (by their "rollbacks") are retained at any step. The rewrite is atomic. Throws a data Error
  // naming the file and line otherwise. The file may be of any size and is read in pieces.
  MetricsLog(const std::filesystem::path& path, int64_t last_step, int64_t rollbacks = 0,
             size_t piece_bytes = size_t{1} << 20);

  void add(const nlohmann::json& line);  // an object with an integer "step"
  void flush();

 private:
  OutputFile file_;
};

// Epochs count from 1 here. Throws a data Error if the run's folder was moved.
class RunLog {
 public:
  // Writes nothing: for a process whose log another one writes.
  RunLog() = default;
  // Continues after `first_step` steps and `rollbacks` rollbacks; later lines are dropped.
  RunLog(const std::filesystem::path& run, int64_t first_step, int64_t rollbacks, std::string unit);

  // {"kind": "train", "step", "epoch", "loss", "accuracy", "lr", "UNIT_per_s", "wait_share"}
  void add_step(const StepReport& report);
  // {"kind": "eval", "step", "epoch", "best", and the values of the task's evaluation}
  void add_eval(const nlohmann::json& metrics);
  // {"kind": "sample", "step", "text"}; bytes that are not UTF-8 are replaced.
  void add_sample(int64_t step, const std::string& text);
  // {"kind": "bound", "step", "samples", "layers": [{"layer", "bound", "exact", "gap", ...}]}
  void add_bound(int64_t step, const nlohmann::json& measured);
  // {"kind": "event", "event", "step", "rollbacks", and `facts`}
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
