#include "tost/kinds/train_run.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/machine.h"
#include "tost/base/path.h"
#include "tost/engine/run_layout.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/kinds.h"
#include "tost/ops/device.h"
#include "tost/store/checkpoint_store.h"
#include "tost/train/config_form.h"
#include "tost/train/shared_save.h"
#include "tost/train/steps_within.h"

namespace tost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The content of a JSON file of the run. Throws a data Error for class names and paths that are not
// UTF-8.
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

TrainResult go(const TrainRun& run, RunMode mode, const LoopConfig& loop, TrainTask& task,
               TrainListener& listener, const std::atomic<bool>* stop) {
  Trainer trainer(loop, task, run.out, listener, stop, run.group);
  if (run.noise_by_batch) trainer.draw_noise_by_batch();
  if (mode == RunMode::kResume && !trainer.resume()) {
    listener.on_message("The run has no checkpoint yet: it starts from the beginning.");
  }
  return trainer.train();
}

// Restores the replaced run after a failure; ignores an error of the restoration.
void restore_replaced(std::optional<RunFolder>& folder, TrainListener& listener) {
  try {
    if (folder && folder->finish())
      listener.on_message("The run that was to be replaced is back in its place.");
  } catch (const std::exception& error) {
    listener.on_message(error.what());
  }
}

RunMode mode_of(const TrainRun& run) {
  return !run.launch.empty() && made_by_launch(run.out, run.launch) ? RunMode::kResume : run.mode;
}

// The state of the run folder, read by process 0 and sent to the others.
struct Found {
  RunMode mode = RunMode::kNew;
  std::optional<SavedRun> saved;
};

Found inspect(const TrainRun& run, std::optional<RunFolder>& folder) {
  Found found{.mode = mode_of(run), .saved = {}};
  folder.emplace(run.out, found.mode, run.launch);
  if (found.mode == RunMode::kResume) found.saved = read_saved(run.out);
  return found;
}

json to_json(const Found& found) {
  json object{{"mode", int(found.mode)}};
  if (!found.saved) return object;
  object["saved"] = TOST_MEMBERS(*found.saved, config, config_where, model_where, has_checkpoint);
  if (found.saved->model) object["saved"]["model"] = *found.saved->model;
  return object;
}

Found found_from_json(const json& object) {
  Found found{.mode = RunMode(object.at("mode").get<int>()), .saved = {}};
  if (!object.contains("saved")) return found;
  const json& saved = object["saved"];
  SavedRun& into = found.saved.emplace();
  into.config = saved.at("config");
  into.config_where = saved.at("config_where");
  into.model_where = saved.at("model_where");
  into.has_checkpoint = saved.at("has_checkpoint");
  if (saved.contains("model")) into.model = saved["model"];
  return found;
}

void on_first(Group* group, const std::function<void()>& work) {
  if (group == nullptr) return work();
  group->by_first([&] {
    work();
    return std::string();
  });
}

void on_all(Group* group, const std::function<void()>& work) {
  group == nullptr ? work() : group->together(work);
}

// The device of a process, which is the GPU of its local rank if there are several processes.
torch::Device device_of_rank(const Group& group, const LoopConfig& loop) {
  const torch::Device device = device_from_name(loop.device);
  if (loop.peer_backend == "nccl" && (device.is_cpu() || !built_with_nccl())) {
    fail_usage("peer_backend nccl needs ",
               device.is_cpu() ? cat("GPUs (device cuda), and the device is ", device.str())
                               : cat("a build with NCCL, and this one found no nccl.h"),
               "; set it to auto or gloo.");
  }
  if (device.is_cpu()) return device;
  if (loop.device != "cuda" && loop.device != "auto") {
    fail_usage("Several processes each take a GPU of their own, so device cannot be ", loop.device,
               "; set it to cuda, and CUDA_VISIBLE_DEVICES to the GPUs to use.");
  }
  if (group.local_rank() >= gpu_count()) {
    fail_usage("Process ", group.local_rank(),
               " of its machine (LOCAL_RANK) has no GPU: torch sees ", gpu_count(),
               "; start as many processes a machine (torchrun --nproc-per-node ", gpu_count(),
               ").");
  }
  const torch::Device rank_device(torch::kCUDA, c10::DeviceIndex(group.local_rank()));
  c10::impl::getDeviceGuardImpl(rank_device.type())
      ->setDevice(rank_device);  // else all pin memory for the first
  return rank_device;
}

void connect_gpus(Group& group, const LoopConfig& loop, torch::Device gpu,
                  TrainListener& listener) {
  if (loop.peer_backend != "gloo" && built_with_nccl()) return group.connect_gpus(gpu);
  listener.on_message(cat("Tensors on GPUs go from process to process through the host's memory",
                          built_with_nccl() ? "." : ": this program has no NCCL."));
}

// Prepares a run, to find errors of settings and data before the folder is changed.
struct Prepared {
  LoopConfig loop;
  std::unique_ptr<TrainTask> task;
  std::string config, model;  // the files
  torch::Device device = torch::kCPU;
};

Prepared prepare(const TrainRun& run, const Found& found, TrainListener& listener) {
  const SavedRun* saved = found.saved ? &*found.saved : nullptr;
  const RunKind& kind = choose_run_kind(run.values, saved != nullptr ? &saved->config : nullptr);
  const PreparedRun prepared = kind.prepare(run.values, saved);
  for (const std::string& message : prepared.messages) listener.on_message(message);
  Prepared result{.loop = prepared.loop, .task = nullptr, .config = {}, .model = {}};
  const LoopConfig& loop = result.loop;
  check_threads(loop.threads);
  if (loop.threads > 0) at::set_num_threads(int(loop.threads));
  const torch::Device device = result.device =
      run.group == nullptr ? device_from_name(loop.device) : device_of_rank(*run.group, loop);
  torch::manual_seed(uint64_t(loop.seed));
  result.task = prepared.make_task();
  if (!device.is_cpu()) result.task->model().to(device);
  steps_per_epoch(loop, *result.task);
  divide_step(loop.accumulate, result.task->rows_per_batch(), rank_of(run.group),
              world_of(run.group), loop.sequence_parallel);
  if (loop.sequence_parallel > 1) result.task->check_token_parts(loop.sequence_parallel);
  result.config = file_text(prepared.config, kConfigFile);
  result.model = file_text(result.task->model_description(), kModelInfoFile);
  return result;
}

TrainResult train_here(const TrainRun& run, TrainListener& listener,
                       const std::atomic<bool>* stop) {
  std::optional<RunFolder> folder;  // only of process 0
  Found found;
  if (run.group == nullptr) {
    found = inspect(run, folder);
  } else {
    const std::string text =
        run.group->by_first([&] { return json_text(to_json(inspect(run, folder))); });
    found = found_from_json(parse_json(text, "what rank 0 found"));
  }
  Prepared prepared;
  on_all(run.group, [&] { prepared = prepare(run, found, listener); });
  if (run.group != nullptr) {
    check_same(*run.group, facts_of(run.build, prepared.config, prepared.model, *prepared.task));
    run.group->set_timeout(prepared.loop.peer_timeout);
    if (!prepared.device.is_cpu()) {
      connect_gpus(*run.group, prepared.loop, prepared.device, listener);
    }
  }
  on_first(run.group, [&] { folder->open(); });
  try {
    if (prepared.loop.shard_optimizer && world_of(run.group) > 1) {
      check_shared_folder(*run.group, run.out);
    }
    on_first(run.group, [&] {
      write_file_atomic(run.out / kConfigFile, prepared.config);
      write_file_atomic(run.out / kModelInfoFile, prepared.model);
    });
    TrainResult result = go(run, found.mode, prepared.loop, *prepared.task, listener, stop);
    if (folder) result.replaced_restored = folder->finish();
    return result;
  } catch (const DataTimeout&) {
    (void)prepared.task.release();  // a thread that cannot be ended still reads from it
    restore_replaced(folder, listener);
    throw;
  } catch (...) {
    restore_replaced(folder, listener);
    throw;
  }
}

}  // namespace

std::optional<int64_t> steps_of_time(const TrainRun& run, double minutes,
                                     const std::atomic<bool>* stop) {
  if (run.group != nullptr || run.mode == RunMode::kResume)
    fail_usage("A time is turned into steps by a new run of one process; give max_steps instead.");
  std::optional<RunFolder> folder;
  TrainListener silent;
  Prepared prepared = prepare(run, inspect(run, folder), silent);
  try {
    return steps_within(minutes, prepared.loop, *prepared.task, stop);
  } catch (const DataTimeout&) {
    (void)prepared.task.release();  // a thread that cannot be ended still reads from it
    throw;
  }
}

// Trains, and reports a failure to the other processes.
TrainResult train(const TrainRun& run, TrainListener& listener, const std::atomic<bool>* stop) {
  if (run.group == nullptr) return train_here(run, listener, stop);
  TrainListener silent;
  try {
    return train_here(run, run.group->first() ? listener : silent, stop);
  } catch (const ReportedElsewhere&) {
    throw;
  } catch (const Error& error) {
    if (!run.group->leave(error) || run.group->first()) throw;
    throw Error(error.kind(), cat("Rank ", run.group->rank(), ": ", error.what()));
  } catch (const std::exception& error) {
    run.group->leave(Error(ErrorKind::kData, error.what()));
    throw;
  }
}

}  // namespace tost
