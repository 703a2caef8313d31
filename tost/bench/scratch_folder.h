// A folder for files of a measurement, removed with everything in it.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "tost/base/error.h"
#include "tost/base/file.h"

namespace tost {

class ScratchFolder {
 public:
  // Below `where`; empty: the system's temporary folder. Throws a data Error where it cannot be
  // made.
  explicit ScratchFolder(const std::filesystem::path& where) {
    std::error_code error;
    const auto in = where.empty() ? std::filesystem::temp_directory_path(error) : where;
    std::string name = (in / "bench_XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) {
      fail_data("Cannot make a folder in ", error ? "the temporary folder" : in.string(), ": ",
                error ? error.message() : std::strerror(errno), "; name another with --folder.");
    }
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
