// Protects the folder of a process against a second process, and detects a move of the folder.
#pragma once

#include <filesystem>

namespace tost {

// A lock on an existing folder, held while in scope; the system releases it when the process dies.
// A file `.lock` in the folder contains the number of the locking process. Throws a usage Error
// that names the flag if another process holds the lock, and a data Error if the file cannot be
// created.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder, const char* flag = "--out");
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

// Remembers the folder at a path, so that a writer notices if it was removed, moved or replaced.
class FolderPlace {
 public:
  // Opens an existing folder; throws a data Error on failure.
  explicit FolderPlace(std::filesystem::path folder);
  ~FolderPlace();
  FolderPlace(const FolderPlace&) = delete;
  FolderPlace& operator=(const FolderPlace&) = delete;

  // Throws a data Error if the path no longer names the opened folder.
  void check() const;

 private:
  std::filesystem::path folder_;
  int fd_ = -1;  // keeps the number of the folder from being given to another one
};

}  // namespace tost
