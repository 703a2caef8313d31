// result.json: what a sweep knows of one of its training runs, kept in the run's folder.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tost {

enum class RunState {
  kStarted,  // begun, perhaps interrupted; its checkpoints say how far
  kTrained,  // not scored yet, or by another rule
  kDone,
  kFailed,  // while training; `error` says why
};

// Of RunRecord::begun in records of earlier versions, which did not know.
inline constexpr int64_t kBegunUnknown = -1;

// A score at every evaluation of a training, in order.
struct ScoreCurve {
  std::vector<int64_t> steps, epochs;
  std::vector<double> values;
};

struct RunRecord {
  RunState state = RunState::kStarted;
  nlohmann::json settings, pretrain;  // pretrain: null without a first stage
  // A checksum of the configuration in the folder since this training began there. Without it, or
  // where the folder holds another one, what lies there is another run.
  std::optional<int64_t> begun;
  std::string error;  // of training, or where kTrained of scoring; "" none
  int64_t parameters = 0;
  // Of training with its evaluations, on the clock and on the processor; unknown where a process
  // was killed.
  std::optional<double> seconds = 0, cpu_seconds = 0;
  std::string metric;  // what `curve` and the comparison are of: top1, accuracy, loss
  std::map<std::string, double> scores;                  // top1, top5, loss: of the final model
  nlohmann::json scored_by;                              // the rule: {"split", "corruptions"}
  std::map<std::string, std::vector<double>> corrupted;  // kind: top-1, one a strength of the rule
  std::optional<int64_t> heads, head_width;              // where the model has them
  ScoreCurve curve;
};

nlohmann::json to_json(const RunRecord& record);

// Nothing where there is no record. Throws a data Error naming the file for anything else than what
// write_record() writes.
std::optional<RunRecord> read_record(const std::filesystem::path& run);
void write_record(const std::filesystem::path& run, const RunRecord& record);

enum class RunAction { kTrain, kResume, kRedo, kScore, kKeep };

// What is to be done where `record` was found (null: nothing). What failed resumes from its last
// checkpoint, since a full disk fails too; what failed and now has other settings, and with
// `overwrite` what failed or was made with others, begins again. Other settings are else a usage
// Error naming `where` and the first that differs.
RunAction choose_action(const RunRecord* record, const nlohmann::json& settings,
                        const nlohmann::json& pretrain, const nlohmann::json& scored_by,
                        bool overwrite, const std::string& where);
std::string action_name(RunAction action);  // "train", "resume", "train again", "score", "keep"

}  // namespace tost
