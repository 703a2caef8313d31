// Zip archives of stored entries, as torch.save writes them, seen in the memory of the whole file.
//
// Strict, so that no two readers can disagree about a file: the entries follow each other without
// hole or overlap from the first byte to the directory, the directory ends at its end record, and
// that at the end of the file; local headers, data descriptors and directory agree; names are
// relative, plain and unique; nothing is compressed, encrypted, split or commented.
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
  // nullptr where there is none.
  const ZipEntry* find(std::string_view name) const;
  // The entry's bytes, after comparing their checksum with the directory's. Checked at every call.
  std::string_view read(const ZipEntry& entry) const;

 private:
  std::string file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

// Whether the file begins as zip archives do.
bool looks_like_zip(std::string_view bytes);

}  // namespace tost
