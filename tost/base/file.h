// Reads and maps whole files. Writes files and folders completely or not at all. Every failure is a
// data Error that names the path and the reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace tost {

// A plain file, open for reading: the only way in which the program opens input files. Refuses
// pipes and devices: a read of a named pipe can wait for ever, and a device can be endless.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return fd_; }
  // Reads the next bytes, fewer than `count` only at the end of the file.
  size_t read(char* to, size_t count);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// Returns the whole file. Refuses folders, and files larger than max_bytes, before reading.
std::string read_file(const std::filesystem::path& path, int64_t max_bytes);
// Returns the first bytes of the file, at most `count`.
std::string read_beginning(const std::filesystem::path& path, size_t count);

// A file being written. Only sync() makes written bytes durable; close() reports errors, the
// destructor does not.
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

// A new file that replaces `path` when it is complete. The unfinished file is PATH.PID-N.tmp in the
// same folder, a name that no other writer uses. The destructor removes the unfinished file unless
// finish() was called.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes) { file_.write(bytes); }
  // Calls fsync, renames the file, and calls fsync on the folder, so that a crash leaves the old or
  // the new content.
  void finish();
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path path_, temporary_;
  OutputFile file_;
  bool finished_ = false;
};

// Writes `bytes` to a file by an AtomicFile, or directly to a device or a pipe.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

// The path that the temporary `file` of an AtomicFile would replace; empty if the name of `file`
// has another form.
std::filesystem::path target_of_leftover(const std::filesystem::path& file);

// Calls fsync on a directory, which makes renames and new files in this directory durable.
void sync_directory(const std::filesystem::path& directory);

// Renames `from` to `to`, replacing a file there; a crash may undo the change.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// Renames `from` to `to`, replacing a file there, and calls fsync on the parent of `to`.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// mkdir -p.
void make_directories(const std::filesystem::path& directory);

// Removes a file or folder as rm -r does, but only the link itself for a link. A missing path is no
// failure.
void remove_tree(const std::filesystem::path& path);
// Calls remove_tree() and ignores failures, to clean up after another error.
void discard(const std::filesystem::path& path) noexcept;

// The number of bytes that this user may still write on the file system of the existing `path`.
int64_t free_bytes(const std::filesystem::path& path);

// A file mapped into memory. If another process truncates the file, a read past its end ends the
// program, as with every mapping.
class MappedFile {
 public:
  // With kCopyOnWrite, changes of the memory do not change the file.
  enum class Access { kRead, kCopyOnWrite };

  // Throws a data Error naming the file if it is missing, unreadable or not a plain file.
  explicit MappedFile(const std::filesystem::path& path, Access access = Access::kRead);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace tost
