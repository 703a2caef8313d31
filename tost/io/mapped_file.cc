#include "tost/io/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"

namespace tost {

MappedFile::MappedFile(const std::filesystem::path& path, Access access) {
  const InputFile file(path);
  const auto size = static_cast<size_t>(file.size());
  if (size == 0) return;  // an empty mapping is refused by the system
  const bool writable = access == Access::kCopyOnWrite;
  void* at = ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_PRIVATE | MAP_NORESERVE, file.descriptor(), 0);
  if (at == MAP_FAILED) fail_data("Cannot map '", path.string(), "': ", system_reason(errno), ".");
  bytes_ = {static_cast<const char*>(at), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace tost
