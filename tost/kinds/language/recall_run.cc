// Training on tasks of recall as a kind of run.
#include "tost/kinds/language/recall_run.h"

#include "tost/kinds/language/model.h"
#include "tost/kinds/language/recall_task.h"

namespace tost {
namespace {

std::unique_ptr<TrainTask> make_task(const RecallTrainConfig& config, const SavedRun* saved) {
  std::optional<LanguageInfo> info;
  if (saved != nullptr && saved->model) {
    info = language_info_from_json(*saved->model, saved->model_where);
  }
  const bool has_checkpoint = saved != nullptr && saved->has_checkpoint;
  return std::make_unique<RecallTask>(config, std::move(info), has_checkpoint);
}

}  // namespace

RunKind recall_run_kind() {
  RunKind kind = make_run_kind("recall", "recall model", recall_train_form(), recall_preset_names(),
                               make_task);
  kind.files = "language";
  return kind;
}

}  // namespace tost
