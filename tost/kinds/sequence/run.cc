// Training of classifiers of sequences as a kind of run.
#include "tost/kinds/sequence/run.h"

#include "tost/kinds/sequence/classifier.h"
#include "tost/kinds/sequence/task.h"

namespace tost {
namespace {

std::unique_ptr<TrainTask> make_task(const SequenceTrainConfig& config, const SavedRun* saved) {
  std::optional<SequenceInfo> info;
  if (saved != nullptr && saved->model) {
    info = sequence_info_from_json(*saved->model, saved->model_where);
  }
  const bool has_checkpoint = saved != nullptr && saved->has_checkpoint;
  return std::make_unique<SequenceTask>(config, std::move(info), has_checkpoint);
}

}  // namespace

RunKind sequence_run_kind() {
  return make_run_kind("sequence", "sequence model", sequence_train_form(), sequence_preset_names(),
                       make_task);
}

}  // namespace tost
