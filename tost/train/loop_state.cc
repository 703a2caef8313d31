#include "tost/train/loop_state.h"

#include "tost/base/error.h"

namespace tost {

using nlohmann::json;

namespace {
constexpr int kFormat = 1;
}

void RunningSums::add(double step_loss, int64_t step_samples, int64_t step_correct) {
  loss += step_loss;
  steps += 1;
  samples += step_samples;
  correct = correct < 0 || step_correct < 0 ? -1 : correct + step_correct;
}

double RunningSums::accuracy() const {
  if (correct < 0 || samples == 0) return std::numeric_limits<double>::quiet_NaN();
  return double(correct) / double(samples);
}

json to_json(const LoopState& state) {
  json object{{"format", kFormat},
              {"step", state.step},
              {"evaluated_step", state.evaluated_step},
              {"sums",
               {{"loss", state.sums.loss},
                {"steps", state.sums.steps},
                {"samples", state.sums.samples},
                {"correct", state.sums.correct}}},
              {"guards", to_json(state.guards)}};
  if (state.best) object["best"] = {{"value", state.best->value}, {"step", state.best->step}};
  return object;
}

LoopState loop_state_from_json(const json& object, const std::filesystem::path& path) {
  try {
    if (object.at("format").get<int>() != kFormat) {
      fail_data("'", path.string(), "' has state format ", object.at("format").dump(),
                "; this program reads format ", kFormat, ".");
    }
    const json& sums = object.at("sums");
    LoopState state{.step = object.at("step").get<int64_t>(),
                    .evaluated_step = object.at("evaluated_step").get<int64_t>(),
                    .best = std::nullopt,
                    .sums = {sums.at("loss").get<double>(), sums.at("steps").get<int64_t>(),
                             sums.at("samples").get<int64_t>(), sums.at("correct").get<int64_t>()},
                    .guards = {}};
    state.guards.rollback_step = state.step;  // of a run that an earlier version began
    if (object.contains("guards")) {
      state.guards = guard_state_from_json(object["guards"], cat("'", path.string(), "'"));
    }
    if (object.contains("best")) {
      const json& best = object["best"];
      state.best = BestSoFar{best.at("value").get<double>(), best.at("step").get<int64_t>()};
    }
    if (state.step < 0)
      fail_data("'", path.string(), "' has the impossible step ", state.step, ".");
    return state;
  } catch (const json::exception& error) {
    fail_data("'", path.string(), "' is not a training state (", error.what(), ").");
  }
}

}  // namespace tost
