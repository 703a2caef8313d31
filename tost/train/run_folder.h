// Starting a run folder, or finding one to go on with. Layout: tost/eval/run_layout.h.
#pragma once

#include <filesystem>

namespace tost {

enum class RunMode {
  kNew,        // refuses a folder that already holds a run
  kOverwrite,  // removes a run that is there (its own files only)
  kResume,     // needs a run that was started
};

// Whether `mode` can be done there; changes nothing. Throws as open_run_folder does.
void check_run_folder(const std::filesystem::path& run, RunMode mode);

// Makes the folder ready. Throws a usage Error naming what is there (or not) and the flag that
// helps, a data Error when the folder cannot be made.
void open_run_folder(const std::filesystem::path& run, RunMode mode);

}  // namespace tost
