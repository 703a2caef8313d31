// Reads whole files. Writes files and folders completely or not at all. Every failure is a data
// Error that names the path and the reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace tost {

// A plain file open for reading, the one way in which this program opens files that it did not
// make. Everything else is refused at once: a named pipe would be waited for, a device can have no
// end.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return fd_; }
  // The next bytes; fewer than `count` only at the end.
  size_t read(char* to, size_t count);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// The whole file. Refuses folders and anything larger than max_bytes before reading it.
std::string read_file(const std::filesystem::path& path, int64_t max_bytes);
// Its first bytes, at most `count`.
std::string read_beginning(const std::filesystem::path& path, size_t count);

// A file being written. Nothing is durable before sync(); close() reports errors, the destructor
// closes silently.
class OutputFile {
 public:
  enum class Mode { kCreate, kAppend };  // kCreate truncates
  explicit OutputFile(const std::filesystem::path& path, Mode mode = Mode::kCreate);
  OutputFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void sync();  // fsync
  void close();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// A new file that replaces `path` when it is complete. Until then the file is next to `path`, as
// PATH.PID-N.tmp, a name that no other writer uses. Without finish() it is removed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes) { file_.write(bytes); }
  // Renames it after an fsync, and fsyncs the directory: after a crash there is the old content or
  // the new one.
  void finish();
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path path_, temporary_;
  OutputFile file_;
  bool finished_ = false;
};

// As an AtomicFile of these bytes; a device or a pipe is written to.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

// The path that `file` was to replace, if a process was killed before finish(). Empty if its name
// is not that of such a file.
std::filesystem::path target_of_leftover(const std::filesystem::path& file);

// fsync of a directory, which makes renames and new names in it durable.
void sync_directory(const std::filesystem::path& directory);

// Renames `from` to `to`, replacing a file there. Not yet durable.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// Renames from to `to` (replacing a file there) and fsyncs the parent of `to`.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// mkdir -p.
void make_directories(const std::filesystem::path& directory);

// rm -r; of a link only the link. A missing path is no failure.
void remove_tree(const std::filesystem::path& path);
// The same without failure, for cleaning up after another error.
void discard(const std::filesystem::path& path) noexcept;

// Bytes free for this user on the file system that holds `path` (which must exist).
int64_t free_bytes(const std::filesystem::path& path);

}  // namespace tost
