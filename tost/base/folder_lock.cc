#include "tost/base/folder_lock.h"

#include <cerrno>
#include <charconv>
#include <string>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"

namespace tost {
namespace {

// The lock's holder as " (pid 123)", or "" if the file does not name a holder.
std::string holder(int fd) {
  char text[16];
  const ssize_t size = ::read(fd, text, sizeof text);
  int64_t number = 0;
  if (size <= 0 || std::from_chars(text, text + size, number).ec != std::errc() || number <= 0) {
    return "";
  }
  return cat(" (pid ", number, ")");
}

// Writes the process number, and ignores failures, because only messages use the number.
void write_holder(int fd) {
  const std::string text = cat(::getpid(), "\n");
  if (::ftruncate(fd, 0) == 0) (void)!::write(fd, text.data(), text.size());
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, const char* flag) {
  const std::filesystem::path path = folder / ".lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  if (fd_ < 0) fail_data("'", path.string(), "' cannot be written: ", system_reason(errno), ".");
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    write_holder(fd_);
    return;
  }
  const int why = errno;
  const std::string who = holder(fd_);
  ::close(fd_);
  fd_ = -1;
  if (why != EWOULDBLOCK) return;  // a file system without locks
  fail_usage("Another process", who, " is at work in '", folder.string(),
             "'; wait for it to end, or choose another folder with ", flag, ".");
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

FolderPlace::FolderPlace(std::filesystem::path folder)
    : folder_(folder.empty() ? "." : std::move(folder)),
      fd_(::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ < 0) fail_data("Cannot open '", folder_.string(), "': ", system_reason(errno), ".");
}

FolderPlace::~FolderPlace() {
  if (fd_ >= 0) ::close(fd_);
}

void FolderPlace::check() const {
  struct stat then {
  }, now{};
  if (::fstat(fd_, &then) != 0) return;  // a disk that is not mounted: the next write will fail
  const bool found = ::stat(folder_.c_str(), &now) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) return;
  if (found && then.st_dev == now.st_dev && then.st_ino == now.st_ino) return;
  fail_data("'", folder_.string(), "' was ",
            found ? "replaced by another folder" : "removed or moved away",
            " while it was being written to, so that nothing more is written; put it back before "
            "you continue.");
}

}  // namespace tost
