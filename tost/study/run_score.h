// Scores of a finished training run.
#pragma once

#include <atomic>

#include "tost/study/run_record.h"
#include "tost/study/sweep_spec.h"
#include "tost/train/run_kind.h"

namespace tost {

// The name of a score of one case of recall begins so; then "64", or "64/4" for length and pairs.
inline constexpr char kCaseScore[] = "accuracy ";

// The rule by which `kind` of runs are scored, as kept in their records.
nlohmann::json scoring_rule(const SweepSpec& spec, const RunKind& kind);

// Fills scores, corrupted, scored_by, metric, curve, heads and head_width of `record` from the run
// folder: pictures by the model of the last checkpoint on the rule's splits, whole and corrupted
// (seed 0); sequences by that of the checkpoint that was best on the validation split, or the last
// one where there is no such split or it is the one that is scored; text by the last evaluation of
// the training. False when `stop` ended it. Throws a data Error for a folder without checkpoint,
// and as evaluate() does.
bool score_run(const std::filesystem::path& run, const RunKind& kind, const nlohmann::json& rule,
               RunRecord& record, const std::atomic<bool>* stop);

}  // namespace tost
