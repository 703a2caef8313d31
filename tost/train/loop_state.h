// The progress of the loop in state.json, without tensors and without values that the step
// determines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tost {

// ---- Guards: rules that protect a long run from a bad step, and their state. ----

inline constexpr int64_t kGuardWindow = 128;  // accepted steps a new one is compared with
inline constexpr int64_t kGuardLeast = 32;    // and how many there must be

struct GuardState {
  // Losses and gradient norms of the last accepted steps, oldest first, at most kGuardWindow of
  // each.
  std::vector<double> losses = {}, norms = {};
  int64_t skipped = 0;  // steps in all
  int64_t skipped_in_row = 0;
  int64_t rollbacks = 0;
  double lr_factor = 1;
  int64_t data_ahead = 0;  // steps whose batches were skipped
  // The step of the last scheduled checkpoint, to which the run rolls back; -1: none yet. A
  // checkpoint of a stopped run does not count, because an uninterrupted run does not have it.
  int64_t rollback_step = -1;

  void accept(double loss, double norm);
};

nlohmann::json to_json(const GuardState& state);
// Reads the guards' state. Reads the state of the guards. Throws json exceptions for a wrong type,
// and a data Error naming `where` for impossible values.
GuardState guard_state_from_json(const nlohmann::json& object, const std::string& where);

// A step that must not change the weights.
struct BadStep {
  const char* what;  // "loss" or "gradient norm"
  double value;
  std::optional<double> z;  // nothing where the value is not finite
};

// Finds a value above m + limit s, with the mean m and the standard deviation s (n in the
// denominator) of `accepted`; s is at least 1e-6 |m|. No finite value is bad before kGuardLeast
// values are accepted, or for a limit of 0. A value that is not finite is always bad.
std::optional<BadStep> find_outlier(const char* what, double value,
                                    const std::vector<double>& accepted, double limit);

// Describes a bad step: "the loss 7.5 lay 12.3 standard deviations above the mean".
std::string describe(const BadStep& bad);

// ---- The state of the loop. ----

// Sums since the last line of the metrics log, so that a resumed run writes the same next line.
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
  // True in every run that has ever had several processes. Random numbers, such as those of
  // dropout, then depend on the batch's position in the data and not on earlier draws.
  bool noise_by_batch = false;
};

nlohmann::json to_json(const LoopState& state);
// Reads the state. Reads state.json; throws a data Error naming `path` for wrong content.
LoopState loop_state_from_json(const nlohmann::json& object, const std::filesystem::path& path);

}  // namespace tost
