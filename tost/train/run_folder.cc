#include "tost/train/run_folder.h"

#include <vector>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/engine/run_layout.h"
#include "tost/train/config_form.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

constexpr char kReplaced[] = ".replaced", kLaunchMark[] = ".launch";

bool is_real_folder(const fs::path& path) {
  return !is_link(path) && is_folder(path);
}

std::vector<fs::path> names_in(const fs::path& folder) {
  std::vector<fs::path> names;
  if (!is_taken(folder)) return names;
  for (const FolderEntry& entry : folder_entries(folder)) names.push_back(entry.path.filename());
  return names;
}

// Whether the file has curves for TensorBoard, which earlier builds of 0.1.0 wrote.
bool is_event_file(const fs::path& name) {
  return name.string().rfind("events.out.tfevents.", 0) == 0 && name.extension() == ".tost";
}

// Whether the name is that of a checkpoint's folder, finished or not, or of a pointer.
bool is_checkpoint_entry(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == kLatestPointer || name == kBestPointer) return is_plain_file(path);
  return checkpoint_step(name.substr(0, name.find('.'))) >= 0 && is_real_folder(path);
}

// The files of a run except the configuration, relative to the folder. Other files, such as notes
// of the user, are not touched.
std::vector<fs::path> run_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::path& name : names_in(folder)) {
    if (name == kModelInfoFile || name == kMetricsFile || name == kLaunchMark ||
        is_event_file(name)) {
      files.push_back(name);
    } else if (name == kCheckpointFolder && is_link(folder / name)) {
      files.push_back(name);  // a link to a larger disk, for example: only the link
    } else if (name == kCheckpointFolder) {
      for (const fs::path& entry : names_in(folder / name)) {
        if (is_checkpoint_entry(folder / name / entry)) files.push_back(name / entry);
      }
    }
  }
  return files;
}

void move_run_files(const fs::path& from, const fs::path& to) {
  bool checkpoints = false;
  for (const fs::path& file : run_files(from)) {
    if (file.has_parent_path()) {
      make_directories(to / kCheckpointFolder);
      checkpoints = true;
    }
    // Skips folders that are in both places, which happens after a power loss between two renames.
    if (!is_real_folder(to / file)) rename_path(from / file, to / file);
  }
  for (const fs::path& folder : {to, from}) {
    if (checkpoints) sync_directory(folder / kCheckpointFolder);
    sync_directory(folder);
  }
}

void move_config(const fs::path& from, const fs::path& to) {
  rename_durably(from / kConfigFile, to / kConfigFile);
  sync_directory(from);
}

void remove_run_files(const fs::path& run) {
  for (const fs::path& file : run_files(run)) remove_tree(run / file);
  if (names_in(run / kCheckpointFolder).empty()) remove_tree(run / kCheckpointFolder);
}

bool has_checkpoint(const fs::path& run) {
  for (const fs::path& name : names_in(run / kCheckpointFolder)) {
    if (checkpoint_step(name.string()) >= 0) return true;
  }
  return false;
}

// The content of a file; empty if there is none.
std::string content(const fs::path& file) {
  return is_taken(file) ? read_file(file, int64_t{1} << 20) : "";
}

// Whether the text is a complete configuration, as training writes it.
bool is_run_config(const fs::path& file) {
  try {
    const nlohmann::json config = read_config_file(file);
    for (const char* key : {"recipe", "seed", "log_every", "keep_last"}) {
      if (!config.contains(key)) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Whether a replacement was interrupted, while files were moved aside or back. The configuration is
// moved aside last and restored first.
bool was_interrupted(const fs::path& run) {
  const std::string aside = content(run / kReplaced / kConfigFile);
  const std::string here = content(run / kConfigFile);
  return aside.empty() || here.empty() || aside == here;
}

}  // namespace

RunFolder::RunFolder(fs::path run, RunMode mode, std::string launch)
    : run_(std::move(run)), mode_(mode), launch_(std::move(launch)) {
  if (run_.empty()) fail_usage("The name of the run folder is empty; give one with --out.");
  if (const fs::path whole = canonical_path(absolute_path(run_)); whole == whole.root_path()) {
    fail_usage("'", run_.string(), "' is the root of the file system; give a run a folder of its ",
               "own with --out.");
  }
  if (is_taken(run_ / kReplaced)) {
    lock();
    if (was_interrupted(run_)) restore_replaced();
  }
  check();
  if (is_taken(run_ / kConfigFile)) lock();
}

void RunFolder::lock() {
  if (!lock_) lock_.emplace(run_);
}

void RunFolder::check() const {
  const fs::path config = run_ / kConfigFile;
  if (!is_taken(config)) {
    if (is_taken(run_ / kCheckpointFolder)) {
      fail_usage(
          "'", run_.string(), "' holds checkpoints but no ", kConfigFile,
          ", so that it is not a run that could be resumed or replaced; move it away, or choose "
          "another folder.");
    }
    if (mode_ != RunMode::kResume) return;
    fail_usage("'", run_.string(), "' holds no run to resume (no ", kConfigFile,
               "); leave out --resume to start one.");
  }
  if (mode_ == RunMode::kResume) return;
  if (!is_run_config(config)) {
    fail_usage("'", config.string(), "' is not the configuration of a run, so that '",
               run_.string(), "' is left alone; choose another folder.");
  }
  if (mode_ == RunMode::kOverwrite) return;
  fail_usage(
      "'", run_.string(),
      "' already holds a run; resume it with --resume, replace it with --overwrite, or choose "
      "another folder.");
}

void RunFolder::open() {
  make_directories(run_);
  sync_directory(run_.parent_path());
  lock();
  check();  // another process may have been quicker
  place_.emplace(run_);
  if (mode_ == RunMode::kOverwrite && is_taken(run_ / kConfigFile)) clear();
  if (mode_ != RunMode::kResume && !launch_.empty())
    write_file_atomic(run_ / kLaunchMark, launch_ + "\n");
}

void RunFolder::clear() {
  if (has_checkpoint(run_)) remove_replaced_run(run_);
  if (is_taken(run_ / kReplaced)) return remove_run_files(run_);
  try {
    set_aside();
  } catch (...) {
    restore_replaced();
    throw;
  }
}

void RunFolder::set_aside() {
  make_directories(run_ / kReplaced);
  sync_directory(run_);  // before anything is moved
  move_run_files(run_, run_ / kReplaced);
  move_config(run_, run_ / kReplaced);
}

void RunFolder::restore_replaced() {
  const fs::path aside = run_ / kReplaced;
  if (is_taken(aside / kConfigFile)) {
    remove_run_files(run_);
    move_config(aside, run_);
  }
  move_run_files(aside, run_);
  remove_tree(aside);
  sync_directory(run_);
}

bool RunFolder::finish() {
  if (!place_ || !is_taken(run_ / kReplaced)) return false;
  place_->check();
  if (has_checkpoint(run_)) {
    remove_replaced_run(run_);
    return false;
  }
  restore_replaced();
  return true;
}

bool made_by_launch(const fs::path& run, const std::string& launch) {
  return is_taken(run / kConfigFile) && content(run / kLaunchMark) == launch + "\n";
}

void remove_replaced_run(const fs::path& run) {
  const fs::path aside = run / kReplaced;
  // Renames the folder before removing it, so that a part of the folder is never restored as a run.
  const fs::path discarded = fs::path(aside) += ".partial";
  remove_tree(discarded);
  if (!is_taken(aside)) return;
  rename_durably(aside, discarded);
  remove_tree(discarded);
}

}  // namespace tost
