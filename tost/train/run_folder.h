// Starts a run folder, or finds one to resume. Layout: tost/engine/run_layout.h, and while a
// process trains there RUN/.lock and RUN/.replaced. RUN/.launch names the launch that made the run.
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

// The folder of a run during training. It is locked against other processes. A run that is replaced
// is stored in RUN/.replaced until the new one has a checkpoint. A process that is killed before
// that leaves both: the new run can be resumed, or replaced again.
class RunFolder {
 public:
  // Whether `mode` can be done there. Locks an existing run, and finishes an interrupted
  // replacement; changes nothing else. Throws a usage Error that describes the folder and names the
  // flag that helps, or if another process trains there. `launch` becomes the mark of a run that is
  // made here; empty: none.
  RunFolder(std::filesystem::path run, RunMode mode, std::string launch = "");

  // Prepares the folder for a run that starts now: creates and locks it, and moves a run to be
  // replaced aside. Throws as the constructor, and a data Error when the folder cannot be made.
  void open();

  // After open(), once training has ended in any way: restores the replaced run if the new one has
  // no checkpoint; true then.
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

// Whether the run in this folder was made by this launch, which is not empty.
bool made_by_launch(const std::filesystem::path& run, const std::string& launch);

// To be called when the new run has its first checkpoint.
void remove_replaced_run(const std::filesystem::path& run);

}  // namespace tost
