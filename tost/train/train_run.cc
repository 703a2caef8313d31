#include "tost/train/train_run.h"

#include <ATen/Parallel.h>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/eval/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/ops/device.h"
#include "tost/train/checkpoint_store.h"
#include "tost/train/config_form.h"
#include "tost/train/run_kind.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void write_json(const fs::path& path, const json& value) {
  write_file_atomic(path, json_text(value, 2) + "\n");
}

// A run is resumed from any working directory, and a path may be written in several ways.
json with_absolute_from(json values) {
  const auto from = values.find("from");
  if (from == values.end() || !from->is_string() || *from == "") return values;
  fs::path path = absolute_path(from->get<std::string>()).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  *from = path.string();
  return values;
}

SavedRun read_saved(const fs::path& run) {
  SavedRun saved;
  saved.config = with_absolute_from(read_config_file(run / kConfigFile));
  saved.config_where = cat("'", (run / kConfigFile).string(), "'");
  const fs::path model = run / kModelInfoFile;
  saved.model_where = cat("'", model.string(), "'");
  if (path_exists(model)) {
    saved.model = parse_json(read_file(model, int64_t{64} << 20), saved.model_where);
  }
  const fs::path checkpoints = run / kCheckpointFolder;
  saved.has_checkpoint =
      path_exists(checkpoints) && !CheckpointStore(checkpoints, 1).list().empty();
  return saved;
}

}  // namespace

TrainResult train(const TrainRun& run, TrainListener& listener, const std::atomic<bool>* stop) {
  const bool resuming = run.mode == RunMode::kResume;
  check_run_folder(run.out, run.mode);
  std::optional<SavedRun> saved;
  if (resuming) saved = read_saved(run.out);
  const json values = with_absolute_from(run.values);
  const RunKind& kind = choose_run_kind(values, saved ? &saved->config : nullptr);
  const PreparedRun prepared = kind.prepare(values, saved ? &*saved : nullptr);
  for (const std::string& message : prepared.messages) listener.on_message(message);

  const LoopConfig& loop = prepared.loop;
  if (loop.threads > 0) at::set_num_threads(int(loop.threads));
  const torch::Device device = device_from_name(loop.device);
  torch::manual_seed(uint64_t(loop.seed));
  // Everything that can be wrong with settings and data shows here, before the folder is touched.
  std::unique_ptr<TrainTask> task = prepared.make_task();
  if (!device.is_cpu()) task->model().to(device);
  steps_per_epoch(loop, *task);
  open_run_folder(run.out, run.mode);
  write_json(run.out / kConfigFile, prepared.config);
  write_json(run.out / kModelInfoFile, task->model_description());

  try {
    Trainer trainer(loop, *task, run.out, listener, stop);
    if (resuming && !trainer.resume()) {
      listener.on_message("The run has no checkpoint yet: it starts from the beginning.");
    }
    return trainer.train();
  } catch (const DataTimeout&) {
    (void)task.release();  // a thread that cannot be ended still reads from it
    throw;
  }
}

}  // namespace tost
