// Guards of a folder that a process writes to: one process at a time, and the folder is not moved.
#pragma once

#include <filesystem>

namespace tost {

// Held while in scope; the system releases it when a process dies. Leaves a file `.lock` with the
// holder's process number in the folder, which exists. Throws a usage Error that names the flag if
// another process holds the lock, and a data Error if the file cannot be created.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder, const char* flag = "--out");
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

// Remembers which folder a path names, for a writer that uses it for days. A folder that was
// removed, moved away or replaced meanwhile must not be written to.
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
