// Everything of the loop's progress that is neither a tensor nor derived from the step: state.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "tost/train/guards.h"

namespace tost {

// Sums since the last line of the metrics log, so that a run resumed between two lines writes the
// same line.
struct RunningSums {
  double loss = 0;  // of step means
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t correct = 0;  // -1 once a batch had no accuracy

  void add(double step_loss, int64_t step_samples, int64_t step_correct);
  double mean_loss() const { return steps == 0 ? 0 : loss / double(steps); }
  double accuracy() const;  // NaN without
};

struct BestSoFar {
  double value = 0;  // finite
  int64_t step = 0;
};

struct LoopState {
  int64_t step = 0;            // optimiser steps done
  int64_t evaluated_step = 0;  // the last step an evaluation was finished at
  std::optional<BestSoFar> best;
  RunningSums sums;
  GuardState guards;
  // What is drawn in a batch (dropout and the like) is a function of the batch's place in the data,
  // as in every run that several processes have had a part in; else of all that was drawn before.
  bool noise_by_batch = false;
};

nlohmann::json to_json(const LoopState& state);
// Strict; a data Error names `path`.
LoopState loop_state_from_json(const nlohmann::json& object, const std::filesystem::path& path);

}  // namespace tost
