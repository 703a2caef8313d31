#include "tost/base/file_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace tost {
namespace {

std::atomic<FileCalls*> replacement{nullptr};

}  // namespace

int FileCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}

ssize_t FileCalls::write(int fd, const void* bytes, size_t count) {
  return ::write(fd, bytes, count);
}

int FileCalls::fsync(int fd) {
  return ::fsync(fd);
}

int FileCalls::close(int fd) {
  return ::close(fd);
}

int FileCalls::rename(const char* from, const char* to) {
  return ::rename(from, to);
}

int FileCalls::mkdir(const char* path, mode_t mode) {
  return ::mkdir(path, mode);
}

int FileCalls::unlink(const char* path) {
  return ::unlink(path);
}

int FileCalls::rmdir(const char* path) {
  return ::rmdir(path);
}

FileCalls& file_calls() {
  static FileCalls real;
  FileCalls* replaced = replacement.load(std::memory_order_acquire);
  return replaced != nullptr ? *replaced : real;
}

void replace_file_calls(FileCalls* calls) {
  replacement.store(calls, std::memory_order_release);
}

}  // namespace tost
