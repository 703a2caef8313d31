#include "tost/base/folder_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tost/base/error.h"
#include "tost/base/path.h"

namespace tost {

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
  if (::fstat(fd_, &then) != 0) return;  // a disk that is away: the next write will say so
  const bool found = ::stat(folder_.c_str(), &now) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) return;
  if (found && then.st_dev == now.st_dev && then.st_ino == now.st_ino) return;
  fail_data("'", folder_.string(), "' was ",
            found ? "replaced by another folder" : "removed or moved away",
            " while it was being written to, so that nothing more is written; put it back before "
            "you continue.");
}

}  // namespace tost
