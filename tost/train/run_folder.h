// Creates a run folder, or opens one to resume. A run folder has the layout of
// tost/engine/run_layout.h, and during training RUN/.lock and RUN/.replaced. RUN/.launch names the
// launch that made the run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tost/base/folder_lock.h"

namespace tost {

enum class RunMode {
  kNew,        // refuses a folder that already holds a run
  kOverwrite,  // replaces an existing run (only files of a run)
  kResume,     // needs a run that was started
};

// The folder of a run during training, locked against other processes. A replaced run is stored in
// RUN/.replaced until the new run has a checkpoint. If the process is killed before that, both runs
// remain, and the new one can be resumed or replaced.
class RunFolder {
 public:
  // Checks that `mode` is possible in the folder. Locks an existing run, and completes an
  // interrupted replacement. Throws a usage Error if `mode` is not possible, or another process
  // trains there. A new run is marked with the name `launch`, unless the name is empty.
  RunFolder(std::filesystem::path run, RunMode mode, std::string launch = "");

  // Creates and locks the folder of a new run, and moves a replaced run aside. Throws the Errors of
  // the constructor, and a data Error if the folder cannot be made.
  void open();

  // Must be called when training ends after open(). Restores the replaced run, and returns true, if
  // the new run has no checkpoint.
  bool finish();

 private:
  void lock();
  void check() const;
  void clear();
  void set_aside();
  void restore_replaced();

  std::filesystem::path run_;
  RunMode mode_;
  std::string launch_;
  std::optional<FolderLock> lock_;
  std::optional<FolderPlace> place_;
};

// Whether the run in the folder was made by `launch`, which must not be empty.
bool made_by_launch(const std::filesystem::path& run, const std::string& launch);

// Removes the replaced run; must be called at the first checkpoint of the new run.
void remove_replaced_run(const std::filesystem::path& run);

}  // namespace tost
