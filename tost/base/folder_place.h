// Whether a folder is still where it was.
#pragma once

#include <filesystem>

namespace tost {

// Remembers which folder a path names, for a writer that comes back to it for days: one that was
// removed, moved away or replaced meanwhile is not a place to write to.
class FolderPlace {
 public:
  // The folder exists; a data Error where it cannot be opened.
  explicit FolderPlace(std::filesystem::path folder);
  ~FolderPlace();
  FolderPlace(const FolderPlace&) = delete;
  FolderPlace& operator=(const FolderPlace&) = delete;

  // Throws a data Error where the path names no folder any more, or another one.
  void check() const;

 private:
  std::filesystem::path folder_;
  int fd_ = -1;  // keeps the number of the folder from being given to another one
};

}  // namespace tost
