// metrics.jsonl: one JSON object a line, in the order things happened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tost/base/file.h"

namespace tost {

class MetricsLog {
 public:
  // Opens for appending. Lines whose "step" is above last_step are dropped first, and so is a last
  // line that a killed process left unfinished: after a resume the file is what an uninterrupted
  // run had written at that step. Of a run that has gone back `rollbacks` times, lines of "kind"
  // "event" written before the last of them (by their "rollbacks") stay whatever their step. The
  // rewrite is atomic. Throws a data Error naming the file and line otherwise. The file may be of
  // any size and is read in pieces.
  MetricsLog(const std::filesystem::path& path, int64_t last_step, int64_t rollbacks = 0,
             size_t piece_bytes = size_t{1} << 20);

  void add(const nlohmann::json& line);  // an object with an integer "step"
  void flush();

 private:
  OutputFile file_;
};

}  // namespace tost
