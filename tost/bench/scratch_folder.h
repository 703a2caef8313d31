// A folder for files of a measurement, removed with everything in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "tost/base/error.h"
#include "tost/base/file.h"

namespace tost {

class ScratchFolder {
 public:
  // Below `where`; empty: the system's temporary folder. Throws a data Error where it cannot be
  // made.
  explicit ScratchFolder(const std::filesystem::path& where) {
    namespace fs = std::filesystem;
    std::string name =
        ((where.empty() ? fs::temp_directory_path() : where) / "bench_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail_data("Cannot make a folder in '", name, "'.");
    path_ = name;
  }
  ~ScratchFolder() { discard(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tost
