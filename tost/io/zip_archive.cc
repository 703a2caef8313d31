#include "tost/io/zip_archive.h"

#include <algorithm>
#include <numeric>

#include "tost/base/error.h"
#include "tost/io/safe_text.h"
#include "tost/io/crc.h"
#include "tost/io/zip_directory.h"

namespace tost {
namespace {

constexpr uint32_t kHeaderMark = 0x04034b50, kDescriptorMark = 0x08074b50;
constexpr uint64_t kHeaderSize = 30;
constexpr uint16_t kHasDescriptor = 1 << 3;

struct LocalHeader {
  uint64_t data = 0;  // where the entry's bytes begin
  uint64_t size = 0, stored = 0;
  uint32_t crc = 0;
};

// What stands before the data, in bytes [record.header, end).
LocalHeader read_local(std::string_view bytes, const ZipRecord& record, uint64_t end,
                       const std::string& file) {
  const std::string name = shown(record.entry.name);
  const uint64_t at = record.header;
  if (end - at < kHeaderSize || zip_number<uint32_t>(bytes, at) != kHeaderMark) {
    fail_zip(file,
             cat("entry ", name, " has no header at byte ", at, ", where the directory says"));
  }
  const uint64_t name_size = zip_number<uint16_t>(bytes, at + 26);
  const uint64_t extra_size = zip_number<uint16_t>(bytes, at + 28);
  if (end - at - kHeaderSize < name_size + extra_size) {
    fail_zip(file, cat("entry ", name, " has a header that reaches into the next entry"));
  }
  if (bytes.substr(at + kHeaderSize, name_size) != record.entry.name ||
      zip_number<uint16_t>(bytes, at + 6) != record.flags ||
      zip_number<uint16_t>(bytes, at + 8) != 0) {
    fail_zip(file, cat("the header and the directory disagree about entry ", name));
  }
  LocalHeader local;
  local.data = at + kHeaderSize + name_size + extra_size;
  local.crc = zip_number<uint32_t>(bytes, at + 14);
  local.stored = zip_number<uint32_t>(bytes, at + 18);
  local.size = zip_number<uint32_t>(bytes, at + 22);
  read_zip64_field(bytes.substr(at + kHeaderSize + name_size, extra_size), local.size, local.stored,
                   nullptr, file, record.entry.name);
  return local;
}

// The record after the data repeats checksum and sizes, with 32 or 64 bits.
bool descriptor_agrees(std::string_view descriptor, const ZipRecord& record) {
  if (descriptor.size() != 16 && descriptor.size() != 24) return false;
  if (zip_number<uint32_t>(descriptor, 0) != kDescriptorMark ||
      zip_number<uint32_t>(descriptor, 4) != record.entry.crc) {
    return false;
  }
  if (descriptor.size() == 16) {
    return zip_number<uint32_t>(descriptor, 8) == record.size &&
           zip_number<uint32_t>(descriptor, 12) == record.size;
  }
  return zip_number<uint64_t>(descriptor, 8) == record.size &&
         zip_number<uint64_t>(descriptor, 16) == record.size;
}

// Checks that the entry fills bytes [record.header, end) exactly, and sets its `bytes`.
void place_entry(std::string_view bytes, ZipRecord& record, uint64_t end, const std::string& file) {
  const LocalHeader local = read_local(bytes, record, end, file);
  const std::string name = shown(record.entry.name);
  if (end - local.data < record.size) {
    fail_zip(file, cat("entry ", name, " claims ", record.size, " bytes where ", end - local.data,
                       " are before what follows"));
  }
  record.entry.bytes = bytes.substr(local.data, record.size);
  const auto rest = bytes.substr(local.data + record.size, end - local.data - record.size);
  const bool same =
      local.crc == record.entry.crc && local.size == record.size && local.stored == record.size;
  const bool later = local.crc == 0 && local.size == 0 && local.stored == 0;
  const bool has_descriptor = (record.flags & kHasDescriptor) != 0;
  if (!same && !(has_descriptor && later)) {
    fail_zip(file, cat("the header and the directory disagree about entry ", name));
  }
  if (rest.empty() && (!has_descriptor || same)) return;
  if (has_descriptor && descriptor_agrees(rest, record)) return;
  fail_zip(file, cat(rest.size(), " bytes after entry ", name,
                     has_descriptor ? " are not the descriptor it needs" : " belong to none"));
}

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes, const std::string& file) : file_(file) {
  const ZipEnd end = read_zip_end(bytes, file);
  std::vector<ZipRecord> records = read_zip_directory(bytes, end, file);
  std::vector<size_t> order(records.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return records[a].header < records[b].header; });
  uint64_t reached = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    ZipRecord& record = records[order[i]];
    const uint64_t next = i + 1 < order.size() ? records[order[i + 1]].header : end.begin;
    if (i + 1 < order.size() && next == record.header) {
      fail_zip(file, cat("two entries lie at byte ", next));
    }
    if (record.header != reached || next > end.begin) {
      fail_zip(file, cat("entry ", shown(record.entry.name), " begins at byte ", record.header,
                         " where ", reached, " was expected"));
    }
    place_entry(bytes, record, next, file);
    reached = next;
  }
  if (records.empty() && end.begin != 0) {
    fail_zip(file, cat("the first ", end.begin, " bytes belong to no entry"));
  }
  entries_.reserve(records.size());
  for (const ZipRecord& record : records) {
    if (!by_name_.emplace(record.entry.name, entries_.size()).second) {
      fail_zip(file, cat("two entries are called ", shown(record.entry.name)));
    }
    entries_.push_back(record.entry);
  }
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::string_view ZipArchive::read(const ZipEntry& entry) const {
  if (zip_crc32(entry.bytes) != entry.crc) {
    fail_zip(file_, cat("the checksum of entry ", shown(entry.name),
                        " does not fit its bytes; the file is damaged"));
  }
  return entry.bytes;
}

bool looks_like_zip(std::string_view bytes) {
  return bytes.substr(0, 4) == "PK\x03\x04" || bytes.substr(0, 4) == "PK\x05\x06";
}

}  // namespace tost
