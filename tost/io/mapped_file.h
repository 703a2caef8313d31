// Maps a file into memory. If another process truncates the file, a read past its end ends the
// program, as with every mapping.
#pragma once

#include <filesystem>
#include <string_view>

namespace tost {

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
