// Reads zip archives of stored entries, as torch.save writes them, from the memory of the whole
// file.
//
// The reader is strict, so that no other reader can find different content in a file. Entries must
// follow each other without gap or overlap from the first byte to the directory, and the end record
// must end the file. Local headers, data descriptors and directory must agree. Names must be
// relative, plain and unique. Nothing may be compressed, encrypted, split or commented.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tost {

inline constexpr uint64_t kMaxZipEntries = 1'000'000;

struct ZipEntry {
  std::string_view name;
  std::string_view bytes;  // not checked; ZipArchive::read() gives them checked
  uint32_t crc = 0;
};

class ZipArchive {
 public:
  // `file` names the file in messages; `bytes` must outlive the archive. Throws a data Error for
  // every violation of the rules of this file. Time and memory are linear in the number of entries.
  ZipArchive(std::string_view bytes, const std::string& file);

  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the directory's order
  // The entry with this name; nullptr if there is none.
  const ZipEntry* find(std::string_view name) const;
  // The bytes of an entry; every call checks their checksum.
  std::string_view read(const ZipEntry& entry) const;

 private:
  std::string file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// Whether the bytes begin like a zip archive.
bool looks_like_zip(std::string_view bytes);

}  // namespace tost
