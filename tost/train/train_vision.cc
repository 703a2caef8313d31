#include "tost/train/train_vision.h"

#include <ATen/Parallel.h>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/eval/run_layout.h"
#include "tost/train/vision_task.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void write_json(const fs::path& path, const json& value) {
  write_file_atomic(path, value.dump(2) + "\n");
}

TrainConfig saved_config(const fs::path& run, const json& changes, TrainListener& listener) {
  std::vector<std::string> messages;
  const fs::path file = run / kConfigFile;
  const TrainConfig saved = make_train_config(read_config_file(file), cat("'", file.string(), "'"));
  const TrainConfig config = resume_train_config(saved, changes, messages);
  for (const std::string& message : messages) listener.on_message(message);
  return config;
}

std::optional<ModelInfo> saved_info(const fs::path& run) {
  const fs::path file = run / kModelInfoFile;
  if (!fs::exists(file)) return std::nullopt;
  const std::string where = cat("'", file.string(), "'");
  const json value =
      json::parse(read_file(file, int64_t{16} << 20), nullptr, /*allow_exceptions=*/false);
  return model_info_from_json(value, where);
}

}  // namespace

TrainResult train_vision(const VisionRun& run, TrainListener& listener,
                         const std::atomic<bool>* stop) {
  const bool resuming = run.mode == RunMode::kResume;
  check_run_folder(run.out, run.mode);
  const TrainConfig config =
      resuming ? saved_config(run.out, run.values, listener) : make_train_config(run.values);
  if (config.threads > 0) at::set_num_threads(int(config.threads));
  torch::manual_seed(uint64_t(config.seed));
  // Everything that can be wrong with settings and data shows here, before the folder is touched.
  VisionTask task(config, resuming ? saved_info(run.out) : std::nullopt);
  steps_per_epoch(config, task);
  open_run_folder(run.out, run.mode);
  write_json(run.out / kConfigFile, train_fields().to_json(config));
  write_json(run.out / kModelInfoFile, to_json(task.info()));

  Trainer trainer(config, task, run.out, listener, stop);
  if (resuming && !trainer.resume()) {
    listener.on_message("The run has no checkpoint yet: it starts from the beginning.");
  }
  return trainer.train();
}

}  // namespace tost
