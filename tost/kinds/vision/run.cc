// Training of image classifiers as a kind of run.
#include "tost/kinds/vision/run.h"

#include "tost/kinds/vision/presets.h"
#include "tost/kinds/vision/task.h"

namespace tost {
namespace {

std::unique_ptr<TrainTask> make_task(const VisionTrainConfig& config, const SavedRun* saved) {
  std::optional<ModelInfo> info;
  if (saved != nullptr && saved->model) {
    info = model_info_from_json(*saved->model, saved->model_where);
  }
  const bool has_checkpoint = saved != nullptr && saved->has_checkpoint;
  return std::make_unique<VisionTask>(config, std::move(info), has_checkpoint);
}

}  // namespace

RunKind vision_run_kind() {
  return make_run_kind("vision", "image model", vision_train_form(), vision_preset_names(),
                       make_task);
}

}  // namespace tost
