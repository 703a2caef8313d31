#include "tost/base/file_calls.h"

#include <atomic>

#include "tost/base/posix.h"

namespace tost {
namespace {

std::atomic<FileCalls*> replacement{nullptr};

}  // namespace

int FileCalls::open(const Path& path, int flags, mode_t mode) {
  return ::open(path.c_str(), flags, mode);
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

int FileCalls::rename(const Path& from, const Path& to) {
  return ::rename(from.c_str(), to.c_str());
}

int FileCalls::mkdir(const Path& path, mode_t mode) {
  return ::mkdir(path.c_str(), mode);
}

int FileCalls::unlink(const Path& path) {
  return ::unlink(path.c_str());
}

int FileCalls::rmdir(const Path& path) {
  return ::rmdir(path.c_str());
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
