#include "tost/base/path.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "tost/base/error.h"
#include "tost/base/posix.h"

namespace tost {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_path(const char* verb, const fs::path& path, const std::error_code& error) {
  fail_data("Cannot ", verb, " '", path.string(),
            "': ", system_reason(error.default_error_condition().value()), ".");
}

fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status)) fail_path("reach", path, error);
  return status;
}

}  // namespace

std::string system_reason(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "the disk is full; free some space and try again";
    case EFBIG:
      return "the file would be larger than this user may write";
    case EACCES:
    case EPERM:
      return "permission denied; choose a place that this user may use, or change its permissions";
    case EROFS:
      return "its file system is read-only; choose another place";
    case ENAMETOOLONG:
      return "the name is too long, a file's has at most 255 bytes; give a shorter one";
    case ELOOP:
      return "its links lead in a circle; remove one of them";
    case EMFILE:
    case ENFILE:
      return "too many files are open; raise the limit (ulimit -n)";
    case EAGAIN:
      return "the system has no thread or process left for this user; ask for fewer, or raise the "
             "limit (ulimit -u)";
    default:
      return std::strerror(error);
  }
}

bool path_exists(const fs::path& path) {
  return fs::exists(status_of(path));
}

bool is_folder(const fs::path& path) {
  return fs::is_directory(status_of(path));
}

bool is_plain_file(const fs::path& path) {
  return fs::is_regular_file(status_of(path));
}

bool is_link(const fs::path& path) {
  std::error_code error;
  return fs::is_symlink(fs::symlink_status(path, error));
}

bool is_taken(const fs::path& path) {
  return is_link(path) || path_exists(path);
}

std::vector<FolderEntry> folder_entries(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;  // of a link that leads nowhere
    entries.push_back({it->path(), it->is_directory(ignored), it->is_regular_file(ignored),
                       it->is_symlink(ignored)});
  }
  if (error) fail_path("list", folder, error);
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.path.native() < b.path.native(); });
  return entries;
}

bool is_empty_folder(const fs::path& folder) {
  return is_folder(folder) && folder_entries(folder).empty();
}

void check_new_folder(const fs::path& path) {
  if (is_taken(path) && !is_empty_folder(path)) {
    fail_usage("'", path.string(), "' exists and is not an empty folder; give another name.");
  }
}

int64_t file_bytes(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  if (error) fail_path("read", file, error);
  return static_cast<int64_t>(bytes);
}

fs::path absolute_path(const fs::path& path) {
  if (path.empty()) fail_usage("A path is empty; give the name of a file or folder.");
  std::error_code error;
  fs::path absolute = fs::absolute(path, error);
  if (error) fail_path("find the working folder for", path, error);
  return absolute;
}

fs::path canonical_path(const fs::path& path) {
  std::error_code error;
  fs::path canonical = fs::weakly_canonical(path, error);
  if (error) fail_path("reach", path, error);
  return canonical;
}

fs::path temporary_folder() {
  std::error_code error;
  fs::path folder = fs::temp_directory_path(error);
  if (!error) return folder;
  // Reads the variables in the order of std::filesystem::temp_directory_path(), which does not
  // report the variable that it used.
  folder = "/tmp";
  for (const char* variable : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    if (const char* value = std::getenv(variable)) {
      folder = value;
      break;
    }
  }
  fail_data("Cannot use the temporary folder '", folder.string(),
            "': ", system_reason(error.value()), "; set TMPDIR to another one.");
}

}  // namespace tost
