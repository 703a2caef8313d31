// A file seen as memory, read-only. What another process cuts off it while it is open is lost: a
// read there ends the program, as with every mapping.
#pragma once

#include <filesystem>
#include <string_view>

namespace tost {

class MappedFile {
 public:
  // Throws a data Error naming the file where it is missing, unreadable or not a plain file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace tost
