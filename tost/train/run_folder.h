// Starts a run folder, or opens one to resume. It is laid out as in tost/store/run_layout.h. While
// a process trains there, it also has RUN/.lock and RUN/.replaced. RUN/.launch names the launch
// that made the run.
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

// The folder of a run during training, locked against other processes. A run that is replaced stays
// in RUN/.replaced until the new one has a checkpoint. If the process is killed before that, both
// stay: the new run can be resumed, or replaced again.
class RunFolder {
 public:
  // Checks whether `mode` is possible there, locks an existing run, and finishes an interrupted
  // replacement. Throws a usage Error that describes the folder and names the flag that helps, or
  // if another process trains there. A run that is created here is marked with `launch`, unless
  // empty.
  RunFolder(std::filesystem::path run, RunMode mode, std::string launch = "");

  // Prepares the folder for a run: creates and locks it, and moves a run to be replaced aside.
  // Throws as the constructor, and a data Error if the folder cannot be created.
  void open();

  // Called after open() when training has ended in any way. Restores the replaced run, and returns
  // true, if the new run has no checkpoint.
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

// Whether this launch, a text that is not empty, made the run in this folder.
bool made_by_launch(const std::filesystem::path& run, const std::string& launch);

// Removes the replaced run, when the new one has its first checkpoint.
void remove_replaced_run(const std::filesystem::path& run);

}  // namespace tost
