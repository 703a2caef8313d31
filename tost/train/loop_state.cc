#include "tost/train/loop_state.h"

#include "tost/base/error.h"
#include "tost/engine/metadata.h"
#include "tost/io/parse_json.h"

namespace tost {

using nlohmann::json;

constexpr int kFormat = 1;

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
              {"sums", TOST_MEMBERS(state.sums, loss, steps, samples, correct)},
              {"guards", to_json(state.guards)}};
  if (state.best) object["best"] = {{"value", state.best->value}, {"step", state.best->step}};
  if (state.noise_by_batch) object["noise_by_batch"] = true;
  return object;
}

LoopState loop_state_from_json(const json& object, const std::filesystem::path& path) {
  return read_from(cat("'", path.string(), "'"), [&] {
    if (json_integer(object.at("format")) != kFormat) {
      fail_data("it has state format ", json_text(object.at("format")),
                "; this program reads format ", kFormat, ".");
    }
    const json& sums = object.at("sums");
    LoopState state{.step = json_integer(object.at("step")),
                    .evaluated_step = json_integer(object.at("evaluated_step")),
                    .best = std::nullopt,
                    .sums = {sums.at("loss").get<double>(), json_integer(sums.at("steps")),
                             json_integer(sums.at("samples")), json_integer(sums.at("correct"))},
                    .guards = {},
                    .noise_by_batch = object.value("noise_by_batch", false)};
    state.guards.rollback_step = state.step;  // of a run that an earlier version began
    if (object.contains("guards")) state.guards = guard_state_from_json(object["guards"], "it");
    const json best = object.value("best", json());
    // Accepts null, by which earlier versions stored a NaN as the best evaluation.
    if (!best.is_null() && !best.at("value").is_null()) {
      state.best = BestSoFar{best.at("value").get<double>(), json_integer(best.at("step"))};
    }
    constexpr int64_t kMost = int64_t{1} << 50;
    if (state.step < 0 || state.step > kMost || state.sums.samples < 0 ||
        state.sums.samples > kMost) {
      fail_data("it has the impossible step ", state.step, " or number of samples ",
                state.sums.samples, ".");
    }
    return state;
  });
}

}  // namespace tost
