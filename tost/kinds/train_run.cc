#include "tost/kinds/train_run.h"

#include <ATen/Parallel.h>

#include "tost/base/cpu_info.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/kinds.h"
#include "tost/ops/device.h"
#include "tost/store/checkpoint_store.h"
#include "tost/store/run_layout.h"
#include "tost/train/config_form.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What a file of the run is to hold. Names of classes and paths may be any bytes.
std::string file_text(const json& value, const char* file) {
  if (const auto text = exact_json_text(value, 2)) return *text + "\n";
  fail_data("A path or a class name is not UTF-8, so that ", file,
            " cannot hold it; rename the file or folder.");
}

SavedRun read_saved(const fs::path& run) {
  SavedRun saved;
  saved.config = read_config_file(run / kConfigFile);
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

TrainResult go(const TrainRun& run, const LoopConfig& loop, TrainTask& task,
               TrainListener& listener, const std::atomic<bool>* stop) {
  Trainer trainer(loop, task, run.out, listener, stop);
  if (run.mode == RunMode::kResume && !trainer.resume()) {
    listener.on_message("The run has no checkpoint yet: it starts from the beginning.");
  }
  return trainer.train();
}

// After a failure, which is the one to be told of.
void put_back(RunFolder& folder, TrainListener& listener) {
  try {
    if (folder.settle())
      listener.on_message("The run that was to be replaced is back in its place.");
  } catch (const std::exception& error) {
    listener.on_message(error.what());
  }
}

}  // namespace

TrainResult train(const TrainRun& run, TrainListener& listener, const std::atomic<bool>* stop) {
  const bool resuming = run.mode == RunMode::kResume;
  RunFolder folder(run.out, run.mode);
  std::optional<SavedRun> saved;
  if (resuming) saved = read_saved(run.out);
  const RunKind& kind = choose_run_kind(run.values, saved ? &saved->config : nullptr);
  const PreparedRun prepared = kind.prepare(run.values, saved ? &*saved : nullptr);
  for (const std::string& message : prepared.messages) listener.on_message(message);

  const LoopConfig& loop = prepared.loop;
  check_threads(loop.threads);
  if (loop.threads > 0) at::set_num_threads(int(loop.threads));
  const torch::Device device = device_from_name(loop.device);
  torch::manual_seed(uint64_t(loop.seed));
  // Everything that can be wrong with settings and data shows here, before the folder is touched.
  std::unique_ptr<TrainTask> task = prepared.make_task();
  if (!device.is_cpu()) task->model().to(device);
  steps_per_epoch(loop, *task);
  const std::string config = file_text(prepared.config, kConfigFile);
  const std::string model = file_text(task->model_description(), kModelInfoFile);
  folder.open();
  try {
    write_file_atomic(run.out / kConfigFile, config);
    write_file_atomic(run.out / kModelInfoFile, model);
    TrainResult result = go(run, loop, *task, listener, stop);
    result.put_back = folder.settle();
    return result;
  } catch (const DataTimeout&) {
    (void)task.release();  // a thread that cannot be ended still reads from it
    put_back(folder, listener);
    throw;
  } catch (...) {
    put_back(folder, listener);
    throw;
  }
}

}  // namespace tost
