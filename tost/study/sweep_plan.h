// From a sweep to the list of its training runs.
#pragma once

#include <filesystem>

#include "tost/study/sweep_spec.h"
#include "tost/train/run_kind.h"

namespace tost {

// Settings as one training run takes them; "seed" is among them.
struct PlannedRun {
  std::string variant;
  int64_t seed = 0;
  nlohmann::json settings;
  std::optional<nlohmann::json> pretrain;  // of a first stage, whose model `settings` starts from
  // Below the sweep's folder: runs/VARIANT/seed-N, and runs/VARIANT/seed-N-pretrain.
  std::filesystem::path folder, pretrain_folder;
};

struct SweepPlan {
  const RunKind* kind = nullptr;      // of run_kinds(), the same for all
  std::vector<std::string> variants;  // in the order of the file; the first is compared with
  std::vector<PlannedRun> runs;       // by variant, then by seed
};

// Every variant (one without settings where the file has none) times every point of the grid, times
// the seeds. Names made from a grid: the values of `mixer`, KEY-VALUE for other keys, joined by _.
// A first stage takes the settings of the sweep, the variant and the point, changed by `pretrain`.
// Throws a usage Error for settings that no run can have (unknown keys, wrong values, model options
// that no model has), for seed or from among them, for two points of one name, and for language
// models with a test split or corruptions.
SweepPlan make_plan(const SweepSpec& spec);

}  // namespace tost
