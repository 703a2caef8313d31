// Finds bad steps; reads and writes the guards' state.
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"
#include "tost/train/loop_state.h"

namespace tost {
namespace {

using nlohmann::json;

void push(std::vector<double>& window, double value) {
  if (int64_t(window.size()) == kGuardWindow) window.erase(window.begin());
  window.push_back(value);
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

void GuardState::accept(double loss, double norm) {
  push(losses, loss);
  push(norms, norm);
  skipped_in_row = 0;
}

json to_json(const GuardState& state) {
  return TOST_MEMBERS(state, losses, norms, skipped, skipped_in_row, rollbacks, lr_factor,
                      data_ahead, rollback_step);
}

GuardState guard_state_from_json(const json& object, const std::string& where) {
  GuardState state{.losses = object.at("losses").get<std::vector<double>>(),
                   .norms = object.at("norms").get<std::vector<double>>(),
                   .skipped = json_integer(object.at("skipped")),
                   .skipped_in_row = json_integer(object.at("skipped_in_row")),
                   .rollbacks = json_integer(object.at("rollbacks")),
                   .lr_factor = object.at("lr_factor").get<double>(),
                   .data_ahead = json_integer(object.at("data_ahead")),
                   .rollback_step = json_integer(object.at("rollback_step"))};
  constexpr int64_t kMost = int64_t{1} << 50;
  const auto counts = {state.skipped, state.skipped_in_row, state.rollbacks, state.data_ahead};
  const bool possible = state.losses.size() == state.norms.size() &&
                        int64_t(state.losses.size()) <= kGuardWindow && all_finite(state.losses) &&
                        all_finite(state.norms) && std::min(counts) >= 0 &&
                        std::max(counts) <= kMost && state.lr_factor > 0 && state.lr_factor <= 1 &&
                        state.rollback_step >= -1 && state.rollback_step <= kMost;
  if (!possible) fail_data(where, " holds impossible values under guards.");
  return state;
}

std::optional<BadStep> find_outlier(const char* what, double value,
                                    const std::vector<double>& accepted, double limit) {
  if (!std::isfinite(value)) return BadStep{what, value, std::nullopt};
  if (limit <= 0 || int64_t(accepted.size()) < kGuardLeast) return std::nullopt;
  double mean = 0, squares = 0;
  for (const double v : accepted) mean += v / double(accepted.size());
  for (const double v : accepted) squares += (v - mean) * (v - mean);
  const double spread = std::max(std::sqrt(squares / double(accepted.size())),
                                 std::max(1e-6 * std::abs(mean), 1e-300));
  const double z = (value - mean) / spread;
  if (z <= limit) return std::nullopt;
  return BadStep{what, value, z};
}

std::string describe(const BadStep& bad) {
  if (!bad.z) return cat("the ", bad.what, " became ", bad.value);
  std::ostringstream z;
  z << std::setprecision(3) << *bad.z;
  return cat("the ", bad.what, " ", bad.value, " lay ", z.str(),
             " standard deviations above the mean");
}

}  // namespace tost
