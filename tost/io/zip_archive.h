// Reads zip archives of stored entries, as torch.save writes them, from the memory of the whole
// file.
//
// It is strict, so that no two readers can disagree about a file. Entries follow each other without
// gap or overlap from the first byte to the directory, which ends at its end record, which ends the
// file. Local headers, data descriptors and directory agree. Names are relative, plain and unique.
// Nothing is compressed, encrypted, split or commented.
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
  // every violation of a rule above. Time and memory are linear in the number of entries.
  ZipArchive(std::string_view bytes, const std::string& file);

  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the directory's order
  // The entry of this name; nullptr if there is none.
  const ZipEntry* find(std::string_view name) const;
  // The entry's bytes, whose checksum every call compares with the directory's.
  std::string_view read(const ZipEntry& entry) const;

 private:
  std::string file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// Whether the bytes begin like a zip archive.
bool looks_like_zip(std::string_view bytes);

}  // namespace tost
