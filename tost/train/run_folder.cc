#include "tost/train/run_folder.h"

#include <vector>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/eval/run_layout.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

bool holds_run(const fs::path& run) {
  return path_exists(run / kConfigFile) || path_exists(run / kCheckpointFolder);
}

bool is_run_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == kConfigFile || name == kMetricsFile || name == kModelInfoFile ||
         name == kCheckpointFolder || name.rfind("events.out.tfevents.", 0) == 0;
}

void remove_run(const fs::path& run) {
  if (!is_folder(run)) return;
  for (const FolderEntry& entry : folder_entries(run)) {
    if (is_run_file(entry.path)) remove_tree(entry.path);
  }
}

}  // namespace

void check_run_folder(const fs::path& run, RunMode mode) {
  if (mode == RunMode::kResume && !path_exists(run / kConfigFile)) {
    fail_usage("'", run.string(), "' holds no run to resume (no ", kConfigFile,
               "); leave out --resume to start one.");
  }
  if (mode == RunMode::kNew && holds_run(run)) {
    fail_usage(
        "'", run.string(),
        "' already holds a run; go on with --resume, replace it with --overwrite, or choose ",
        "another folder.");
  }
}

void open_run_folder(const fs::path& run, RunMode mode) {
  check_run_folder(run, mode);
  if (mode == RunMode::kOverwrite) remove_run(run);
  make_directories(run);
  sync_directory(run.parent_path());
}

}  // namespace tost
