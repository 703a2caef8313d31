// Training of language models as a kind of run.
#include "tost/kinds/language/run.h"

#include "tost/kinds/language/model.h"
#include "tost/kinds/language/task.h"

namespace tost {
namespace {

std::unique_ptr<TrainTask> make_task(const LanguageTrainConfig& config, const SavedRun* saved) {
  std::optional<LanguageInfo> info;
  if (saved != nullptr && saved->model) {
    info = language_info_from_json(*saved->model, saved->model_where);
  }
  const bool has_checkpoint = saved != nullptr && saved->has_checkpoint;
  return std::make_unique<LanguageTask>(config, std::move(info), has_checkpoint);
}

}  // namespace

RunKind language_run_kind() {
  return make_run_kind("language", "language model", language_train_form(), language_preset_names(),
                       make_task);
}

}  // namespace tost
