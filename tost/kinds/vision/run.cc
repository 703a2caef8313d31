// Training of image classifiers as a kind of run.
#include "tost/kinds/vision/run.h"

#include "tost/base/error.h"
#include "tost/kinds/vision/presets.h"
#include "tost/kinds/vision/run_score.h"
#include "tost/kinds/vision/task.h"

namespace tost {
namespace {

constexpr char kOptions[] = "model_options";

// A typing error in model_options would else show in the first run alone, once for every run.
void check_model_options(const nlohmann::json& config) {
  const auto model = config.value("model", std::string("tost_nano_p4"));
  const auto options = config.value(kOptions, nlohmann::json::object());
  if (options.empty()) return;
  try {
    vision_config_from_json(merge(to_json(vision_preset(model)), options));
  } catch (const Error& error) {
    fail_usage("model_options cannot be used: ", error.what());
  }
}

}  // namespace

RunKind vision_run_kind() {
  RunKind kind = make_run_kind<VisionTask>("vision", "image model", vision_train_form(),
                                           vision_preset_names(), model_info_from_json);
  kind.check = check_model_options;
  kind.metric = "top1";
  kind.corruptible = true;
  kind.score = score_pictures;
  return kind;
}

}  // namespace tost
