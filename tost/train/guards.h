// Rules that protect a long run from a bad step, and their state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tost {

inline constexpr int64_t kGuardWindow = 128;  // accepted steps a new one is compared with
inline constexpr int64_t kGuardLeast = 32;    // and how many there must be

struct GuardState {
  // Of the last accepted steps, oldest first, at most kGuardWindow of each.
  std::vector<double> losses = {}, norms = {};
  int64_t skipped = 0;  // steps in all
  int64_t skipped_in_row = 0;
  int64_t rollbacks = 0;
  double lr_factor = 1;
  int64_t data_ahead = 0;  // steps whose batches were skipped
  // The last checkpoint that was due by the settings: a run rolls back to it. -1: none yet. One
  // that was written because the run was stopped does not count, because an uninterrupted run lacks
  // it.
  int64_t rollback_step = -1;

  void accept(double loss, double norm);
};

nlohmann::json to_json(const GuardState& state);
// Throws json exceptions for a wrong type and a data Error naming `where` for impossible values.
GuardState guard_state_from_json(const nlohmann::json& object, const std::string& where);

// A step that must not reach the weights.
struct BadStep {
  const char* what;  // "loss" or "gradient norm"
  double value;
  std::optional<double> z;  // nothing where the value is not finite
};

// With m and s the mean and standard deviation (n in the denominator) of `accepted`: bad if
// value > m + limit s, where s is at least 1e-6 |m|, the size of a plateau's rounding.
// No finite value is bad before kGuardLeast are accepted or for a limit of 0. One that is not
// finite always is.
std::optional<BadStep> find_outlier(const char* what, double value,
                                    const std::vector<double>& accepted, double limit);

// "the loss 7.5 lay 12.3 standard deviations above the mean", "the loss became nan".
std::string describe(const BadStep& bad);

}  // namespace tost
