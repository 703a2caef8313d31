#include "tost/base/file.h"

#include <atomic>
#include <cerrno>
#include <limits>

#include "tost/base/error.h"
#include "tost/base/file_calls.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"

namespace tost {

namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_io(std::string_view verb, const fs::path& path, int error) {
  fail_data("Cannot ", verb, " '", path.string(), "': ", system_reason(error), ".");
}

// Throws a data Error for anything other than a plain file.
[[noreturn]] void fail_kind(const fs::path& path, mode_t mode) {
  if (S_ISDIR(mode)) fail_data("'", path.string(), "' is a folder; a file is expected.");
  const char* kind = S_ISFIFO(mode)   ? "pipe (as <(...) of a shell)"
                     : S_ISSOCK(mode) ? "socket"
                                      : "device";
  fail_data("'", path.string(), "' is not a plain file but a ", kind,
            "; write its content to a file and give that.");
}

// One call takes at most about 2 GiB, so larger tensors need several calls.
constexpr size_t kMaxPerCall = size_t{1} << 30;

// Retries interrupted calls, since a signal (Ctrl-C, a resized terminal) is not a failure.
template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Creates a file with a name that no other process, machine or leftover file uses in this folder.
int open_next_to(const fs::path& path, fs::path& temporary) {
  static std::atomic<int64_t> count = 0;
  while (true) {
    temporary = path;
    temporary += cat(".", ::getpid(), "-", count++, ".tmp");
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    const int fd = retry([&] { return file_calls().open(temporary, flags, 0666); });
    if (fd >= 0) return fd;
    if (errno != EEXIST) fail_io("write", path, errno);
  }
}

bool is_device(const fs::path& path) {
  return path_exists(path) && !is_plain_file(path) && !is_folder(path);
}

}  // namespace

InputFile::InputFile(const fs::path& path) : path_(path) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  fd_ = retry([&] { return ::open(path.c_str(), flags); });
  if (fd_ < 0 && errno == ENXIO) fail_kind(path, S_IFSOCK);
  if (fd_ < 0 && errno == EACCES && is_folder(path)) fail_kind(path, S_IFDIR);  // on Windows
  if (fd_ < 0) fail_io("open", path, errno);
  struct stat info {};
  const int error = ::fstat(fd_, &info) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(info.st_mode)) {
    size_ = info.st_size;
    return;
  }
  ::close(fd_);
  if (error != 0) fail_io("open", path, error);
  fail_kind(path, info.st_mode);
}

InputFile::~InputFile() {
  ::close(fd_);
}

size_t InputFile::read(char* to, size_t count) {
  size_t done = 0;
  while (done < count) {
    const size_t most = std::min(count - done, kMaxPerCall);
    const ssize_t got = retry([&] { return ::read(fd_, to + done, most); });
    if (got < 0) fail_io("read", path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

std::string read_file(const fs::path& path, int64_t max_bytes) {
  InputFile file(path);
  if (file.size() > max_bytes) {
    fail_data("'", path.string(), "' has ", human_bytes(file.size()), "; at most ",
              human_bytes(max_bytes), " are accepted here.");
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  // Reads until the end or the limit, because files of /proc report size 0 and still have content.
  char more[4096];
  while (const size_t got = file.read(more, sizeof more)) {
    bytes.append(more, got);
    if (static_cast<int64_t>(bytes.size()) > max_bytes) {
      fail_data("'", path.string(), "' holds more than ", human_bytes(max_bytes), ".");
    }
  }
  return bytes;
}

std::string read_beginning(const fs::path& path, size_t count) {
  InputFile file(path);
  std::string bytes(count, '\0');
  bytes.resize(file.read(bytes.data(), count));
  return bytes;
}

OutputFile::OutputFile(const fs::path& path, Mode mode) : path_(path) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::kAppend ? O_APPEND : O_TRUNC);
  fd_ = retry([&] { return file_calls().open(path, flags, 0666); });
  if (fd_ < 0) fail_io("write", path, errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) file_calls().close(fd_);
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = retry(
        [&] { return file_calls().write(fd_, bytes.data(), std::min(bytes.size(), kMaxPerCall)); });
    if (put < 0) fail_io("write", path_, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void OutputFile::sync() {
  if (retry([&] { return file_calls().fsync(fd_); }) != 0 && errno != EINVAL)
    fail_io("write", path_, errno);
}

void OutputFile::close() {
  if (fd_ < 0) return;
  const int fd = fd_;
  fd_ = -1;
  // Does not retry an interrupted close(), because Linux has freed the descriptor.
  if (file_calls().close(fd) != 0 && errno != EINTR) fail_io("write", path_, errno);
}

AtomicFile::AtomicFile(const fs::path& path)
    : path_(path), file_(path, open_next_to(path, temporary_)) {}

AtomicFile::~AtomicFile() {
  if (finished_) return;
  try {
    file_.close();  // Windows removes no open file
  } catch (const Error&) {
  }
  discard(temporary_);
}

void AtomicFile::finish() {
  file_.sync();
  file_.close();
  rename_durably(temporary_, path_);
  finished_ = true;
}

void write_file_atomic(const fs::path& path, std::string_view bytes) {
  if (is_device(path)) {  // or a pipe: a file in its place would be no device any more
    OutputFile file(path, OutputFile::Mode::kAppend);
    file.write(bytes);
    return file.close();
  }
  AtomicFile file(path);
  file.write(bytes);
  file.finish();
}

fs::path target_of_leftover(const fs::path& file) {
  const fs::path name = file.stem();
  const std::string writer = name.extension().string();
  const size_t dash = writer.find_last_not_of("0123456789");  // of .PROCESS-NUMBER
  const bool is_writer = dash > 1 && dash == writer.find_first_not_of("0123456789", 1) &&
                         dash + 1 < writer.size() && writer[dash] == '-';
  return is_writer && file.extension() == ".tmp" ? file.parent_path() / name.stem() : fs::path();
}

void sync_directory(const fs::path& directory) {
#ifndef _WIN32  // which opens no folders, and needs no such call
  const fs::path folder = directory.empty() ? "." : directory;
  const int fd = retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) fail_io("open", directory, errno);
  const int error = retry([&] { return file_calls().fsync(fd); }) == 0 ? 0 : errno;
  ::close(fd);
  // Ignores EINVAL, which some file systems return because they cannot sync a directory.
  if (error != 0 && error != EINVAL) fail_io("write", directory, error);
#endif
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (file_calls().rename(from, to) != 0) fail_io("write", to, errno);
}

void rename_durably(const fs::path& from, const fs::path& to) {
  rename_path(from, to);
  sync_directory(to.parent_path());
}

void make_directories(const fs::path& directory) {
  if (fs::path missing = directory; !missing.empty() && !path_exists(missing)) {
    if (!missing.has_filename()) missing = missing.parent_path();
    make_directories(missing.parent_path());
    if (file_calls().mkdir(missing, 0777) != 0 && errno != EEXIST) {
      fail_io("create folder", directory, errno);
    }
  }
  if (!directory.empty() && !is_folder(directory)) {
    fail_data("'", directory.string(), "' is a file; a folder is expected.");
  }
}

void remove_tree(const fs::path& path) {
  if (!is_taken(path)) return;
  if (is_link(path) || !is_folder(path)) {
    if (file_calls().unlink(path) != 0 && errno != ENOENT) fail_io("remove", path, errno);
    return;
  }
  for (const FolderEntry& entry : folder_entries(path)) remove_tree(entry.path);
  if (file_calls().rmdir(path) != 0 && errno != ENOENT) fail_io("remove", path, errno);
}

void discard(const fs::path& path) noexcept {
  try {
    remove_tree(path);
  } catch (...) {
    // Ignores a failure of the removal, because an earlier failure is reported.
  }
}

int64_t free_bytes(const fs::path& path) {
  std::error_code error;
  const auto free = fs::space(path.empty() ? "." : path, error).available;
  if (error) fail_io("inspect", path, error.default_error_condition().value());
  return static_cast<int64_t>(std::min<uintmax_t>(free, std::numeric_limits<int64_t>::max()));
}

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
