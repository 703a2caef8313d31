// A new folder for files of a measurement or a trial, removed with everything in it.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"

namespace tost {

class ScratchFolder {
 public:
  // Below `where`; empty: the system's temporary folder. If it cannot be made, throws a data Error
  // that ends with `advice`.
  ScratchFolder(const std::filesystem::path& where, std::string_view advice) {
    const auto in = where.empty() ? temporary_folder() : where;
    std::string name = (in / "tost_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      fail_data("Cannot make a folder in '", in.string(), "': ", system_reason(errno), "; ", advice,
                ".");
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
