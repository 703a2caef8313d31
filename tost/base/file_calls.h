// All system calls that change files and folders, so that tests can make the k-th call fail.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>

namespace tost {

// Each function is the POSIX call of the same name; after a negative result errno has the reason.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  using Path = std::filesystem::path;
  virtual int open(const Path& path, int flags, mode_t mode);
  virtual ssize_t write(int fd, const void* bytes, size_t count);
  virtual int fsync(int fd);
  virtual int close(int fd);
  virtual int rename(const Path& from, const Path& to);
  virtual int mkdir(const Path& path, mode_t mode);
  virtual int unlink(const Path& path);
  virtual int rmdir(const Path& path);
};

FileCalls& file_calls();

// Replaces the system calls of the whole process by `calls`, for tests; null restores the real
// calls. The caller keeps `calls` alive; no other thread may be in a call meanwhile.
void replace_file_calls(FileCalls* calls);

}  // namespace tost
