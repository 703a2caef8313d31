// One process at a time in a folder.
#pragma once

#include <filesystem>

namespace tost {

// Held while in scope; the system lets go when a process dies. Leaves a file `.lock` with the
// holder's process number in the folder, which exists. Throws a usage Error when another holder is
// there, which asks for another folder by the flag that named this one; a data Error when the file
// cannot be made.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder, const char* flag = "--out");
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace tost
