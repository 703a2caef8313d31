// All system calls that change files and folders, so that tests can make the k-th call fail.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace tost {

// Each function is the POSIX call of the same name; after a negative result errno has the reason.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t write(int fd, const void* bytes, size_t count);
  virtual int fsync(int fd);
  virtual int close(int fd);
  virtual int rename(const char* from, const char* to);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
};

FileCalls& file_calls();

// Replaces the system calls of the whole process by `calls`, for tests; null restores the real
// calls. The caller keeps `calls` alive; no other thread may be in a call meanwhile.
void replace_file_calls(FileCalls* calls);

}  // namespace tost
