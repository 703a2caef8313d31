// All system calls that change files and folders, so that tests can let the k-th of them fail or
// stop the machine there.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace tost {

// Each function is the POSIX call of its name: a result below 0 is a failure, explained by errno.
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
