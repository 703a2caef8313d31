#include "tost/sweep/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "tost/base/error.h"
#include "tost/base/path.h"

namespace tost {

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_data("'", path.string(), "' cannot be written: ", system_reason(errno), ".");
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int why = errno;
  ::close(fd_);
  fd_ = -1;
  if (why != EWOULDBLOCK) return;  // a file system without locks
  fail_usage("Another process is at work in '", folder.string(),
             "'; wait for it, or choose another --out.");
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace tost
