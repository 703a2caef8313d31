#include "tost/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tost/base/error.h"

namespace tost {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Access access) {
  const auto fail = [&] {
    fail_data("Cannot open '", path.string(), "': ", std::strerror(errno), ".");
  };
  // Without O_NONBLOCK a named pipe would be waited for.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info {};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0) fail();
  if (!S_ISREG(info.st_mode)) fail_data("'", path.string(), "' is not a plain file.");
  if (info.st_size == 0) return;  // an empty mapping is refused by the system
  const auto size = static_cast<size_t>(info.st_size);
  const bool writable = access == Access::kCopyOnWrite;
  void* at = ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_PRIVATE | MAP_NORESERVE, file.fd, 0);
  if (at == MAP_FAILED) fail();
  bytes_ = {static_cast<const char*>(at), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace tost
