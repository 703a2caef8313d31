#include "tost/io/zip_archive.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/io/crc.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr uint64_t kLocalMark = 0x04034b50, kDescriptorMark = 0x08074b50, kRecordMark = 0x02014b50;
constexpr uint64_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr uint64_t kLocalSize = 30, kRecordSize = 46, kEndSize = 22;
constexpr uint64_t kEnd64Size = 56, kLocatorSize = 20;
constexpr uint64_t kHasDescriptor = 1 << 3, kEncrypted = 1 | 1 << 6 | 1 << 13;
constexpr uint64_t kElsewhere = 0xffffffff;  // a size or an offset is in the zip64 field

[[noreturn]] void fail_zip(const std::string& file, const std::string& what) {
  fail_data("'", file, "' is not a valid torch archive: ", what, ".");
}

// The fields of an entry in its local header or in its record of the directory.
struct Record {
  std::string_view name, bytes;
  uint64_t flags = 0, method = 0, crc = 0, stored = 0, size = 0;
  uint64_t extra = 0, end = 0;  // of its extra fields, which are its last part
  uint64_t header = 0;          // where the local header begins
};

class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::vector<ZipEntry> run() {
    read_end();
    std::vector<Record> records;
    records.reserve(count_);
    uint64_t at = begin_;
    for (uint64_t i = 0; i < count_; ++i) {
      records.push_back(read_record(at));
      at = records.back().end;
    }
    if (at != end_) fail(cat(end_ - at, " bytes of its directory belong to no entry"));
    place(records);
    std::vector<ZipEntry> entries;
    for (const Record& record : records) {
      entries.push_back({record.name, record.bytes, static_cast<uint32_t>(record.crc)});
    }
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_zip(file_, what); }

  // Reads a little-endian number at `at`; the caller must check that it is inside the file.
  template <int kBytes>
  uint64_t number(uint64_t at) const {
    uint64_t value = 0;
    for (int i = kBytes; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes_[at + static_cast<uint64_t>(i)]);
    }
    return value;
  }

  // Finds the end record, which must end the file and have no comment.
  uint64_t find_end() const {
    if (bytes_.size() < kEndSize) fail("it is too short to be one");
    const uint64_t at = bytes_.size() - kEndSize;
    if (number<4>(at) == kEndMark && number<2>(at + 20) == 0) return at;
    const uint64_t first = bytes_.size() - std::min<uint64_t>(bytes_.size(), kEndSize + 0xffff);
    for (uint64_t i = at; i-- > first;) {
      if (number<4>(i) == kEndMark) {
        fail(cat(bytes_.size() - i - kEndSize,
                 " bytes (a comment, or something appended) follow its end record"));
      }
    }
    fail("its end record is missing; the file may be truncated");
  }

  // Reads begin, end and number of records of the directory from the end record.
  void read_end() {
    const uint64_t at = end_ = find_end();
    count_ = number<2>(at + 10);
    begin_ = number<4>(at + 16);
    uint64_t size = number<4>(at + 12);
    if (number<4>(at + 4) != 0 || number<2>(at + 8) != count_) {
      fail("it is one part of a split archive");
    }
    if (at >= kLocatorSize && number<4>(at - kLocatorSize) == kLocatorMark) {
      size = read_end64(at - kLocatorSize, size);
    }
    if (begin_ > end_ || end_ - begin_ != size) {
      fail(cat("its directory is said to begin at byte ", begin_, " and to have ", size,
               " bytes, but ends at ", end_));
    }
    if (count_ > kMaxZipEntries) {
      fail(cat("it claims ", count_, " entries; the limit is ", kMaxZipEntries));
    }
    if (count_ > size / kRecordSize) {
      fail(cat("it claims ", count_, " entries, more than its directory can hold"));
    }
  }

  // Replaces the values of the end record by those of the zip64 record; returns the size of the
  // latter.
  uint64_t read_end64(uint64_t locator, uint64_t size) {
    end_ = locator - kEnd64Size;
    if (locator < kEnd64Size || number<8>(locator + 8) != end_) {
      fail("its zip64 end record is not where the locator says");
    }
    if (number<4>(end_) != kEnd64Mark || number<8>(end_ + 4) != kEnd64Size - 12) {
      fail("its zip64 end record is damaged");
    }
    if (number<4>(locator + 4) != 0 || number<4>(locator + 16) > 1 || number<8>(end_ + 16) != 0) {
      fail("it is one part of a split archive");
    }
    const uint64_t count = number<8>(end_ + 32), wide = number<8>(end_ + 40);
    const uint64_t begin = number<8>(end_ + 48);
    if ((count_ != 0xffff && count_ != count) || (size != kElsewhere && size != wide) ||
        (begin_ != kElsewhere && begin_ != begin) || number<8>(end_ + 24) != count) {
      fail("its two end records disagree");
    }
    count_ = count;
    begin_ = begin;
    return wide;
  }

  void check_name(std::string_view name) const {
    const auto refuse = [&](const char* why) {
      fail(cat("the name ", shown(name), " of an entry ", why));
    };
    if (name.empty()) refuse("is empty");
    if (name.size() > 4096) refuse("is longer than 4096 bytes");
    if (!is_utf8(name)) refuse("is not UTF-8");
    for (const char c : name) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) refuse("holds a control character");
      if (c == '\\') refuse("holds a backslash");
    }
    for (size_t at = 0; at <= name.size();) {
      const size_t slash = std::min(name.find('/', at), name.size());
      const auto part = name.substr(at, slash - at);
      const bool last_of_folder = part.empty() && at == name.size() && at > 1;
      if (part == "." || part == ".." || (part.empty() && !last_of_folder)) {
        refuse("is not a plain relative path");
      }
      at = slash + 1;
    }
  }

  // Reads the fields that local headers and records share; the name of the entry begins at `name`.
  Record read_fields(uint64_t at, uint64_t name) const {
    Record record;
    record.flags = number<2>(at);
    record.method = number<2>(at + 2);
    record.crc = number<4>(at + 8);
    record.stored = number<4>(at + 12);
    record.size = number<4>(at + 16);
    record.name = bytes_.substr(name, number<2>(at + 20));
    record.extra = name + number<2>(at + 20);
    record.end = record.extra + number<2>(at + 22);
    return record;
  }

  // Replaces sizes and offset by those of the zip64 field if they are marked as 64-bit values.
  void read_zip64(Record& record, bool has_offset) const {
    const auto refuse = [&](const char* what) {
      fail(cat("entry ", shown(record.name), " has ", what));
    };
    bool seen = false;
    for (uint64_t at = record.extra; at < record.end;) {
      if (record.end - at < 4 || record.end - at - 4 < number<2>(at + 2)) {
        refuse("a damaged extra field");
      }
      uint64_t field = at + 4;
      const uint64_t kind = number<2>(at);
      at = field + number<2>(at + 2);
      if (kind != 1) continue;
      if (seen) refuse("two zip64 fields");
      seen = true;
      for (uint64_t* value : {&record.size, &record.stored, &record.header}) {
        if (*value != kElsewhere || (value == &record.header && !has_offset)) continue;
        if (at - field < 8) refuse("a zip64 field that is too short");
        *value = number<8>(field);
        field += 8;
      }
    }
  }

  Record read_record(uint64_t at) const {
    if (end_ - at < kRecordSize || number<4>(at) != kRecordMark) {
      fail(cat("its directory is damaged at byte ", at));
    }
    Record record = read_fields(at + 8, at + kRecordSize);
    record.header = number<4>(at + 42);
    const uint64_t comment_size = number<2>(at + 32);
    if (record.end + comment_size > end_) fail(cat("its directory is damaged at byte ", at));
    check_name(record.name);
    const std::string entry = cat("entry ", shown(record.name));
    if ((record.flags & kEncrypted) != 0) fail(entry + " is encrypted");
    if (record.method != 0) {
      fail(entry +
           " is compressed; files of torch.save are not (programs of torch.jit.save are, "
           "and are not read)");
    }
    if (comment_size != 0) fail(entry + " has a comment");
    if (number<2>(at + 34) != 0) fail("it is one part of a split archive");
    read_zip64(record, true);
    if (record.stored != record.size) {
      fail(cat(entry, " is stored in ", record.stored, " bytes and has ", record.size));
    }
    return record;
  }

  // Whether bytes [at, end) are a data descriptor with the entry's checksum and sizes.
  bool descriptor_agrees(uint64_t at, uint64_t end, const Record& record) const {
    if (end - at != 16 && end - at != 24) return false;
    if (number<4>(at) != kDescriptorMark || number<4>(at + 4) != record.crc) return false;
    if (end - at == 24)
      return number<8>(at + 8) == record.size && number<8>(at + 16) == record.size;
    return number<4>(at + 8) == record.size && number<4>(at + 12) == record.size;
  }

  // Checks that the entry fills bytes [record.header, end) exactly, and sets `bytes` of the entry.
  void place_entry(Record& record, uint64_t end) const {
    const std::string name = cat("entry ", shown(record.name));
    const uint64_t at = record.header;
    if (end - at < kLocalSize || number<4>(at) != kLocalMark) {
      fail(cat(name, " has no header at byte ", at, ", where the directory says"));
    }
    Record local = read_fields(at + 6, at + kLocalSize);
    if (local.end > end) fail(name + " has a header that reaches into the next entry");
    const auto disagree = [&] { fail("the header and the directory disagree about " + name); };
    if (local.name != record.name || local.flags != record.flags || local.method != 0) disagree();
    read_zip64(local, false);
    if (end - local.end < record.size) {
      fail(cat(name, " claims ", record.size, " bytes where ", end - local.end,
               " are before what follows"));
    }
    record.bytes = bytes_.substr(local.end, record.size);
    const uint64_t rest = local.end + record.size;
    const bool same =
        local.crc == record.crc && local.size == record.size && local.stored == record.size;
    const bool later = local.crc == 0 && local.size == 0 && local.stored == 0;
    const bool has_descriptor = (record.flags & kHasDescriptor) != 0;
    if (!same && !(has_descriptor && later)) disagree();
    if (rest == end && (!has_descriptor || same)) return;
    if (has_descriptor && descriptor_agrees(rest, end, record)) return;
    fail(cat(end - rest, " bytes after ", name,
             has_descriptor ? " are not the descriptor it needs" : " belong to none"));
  }

  // Checks that entries fill the file from the first byte to the directory without gap or overlap.
  void place(std::vector<Record>& records) const {
    std::vector<Record*> order;
    for (Record& record : records) order.push_back(&record);
    std::sort(order.begin(), order.end(),
              [](const Record* a, const Record* b) { return a->header < b->header; });
    uint64_t reached = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const bool last = i + 1 == order.size();
      const uint64_t next = last ? begin_ : order[i + 1]->header, at = order[i]->header;
      if (!last && next == at) fail(cat("two entries lie at byte ", next));
      if (at != reached || next > begin_) {
        fail(cat("entry ", shown(order[i]->name), " begins at byte ", at, " where ", reached,
                 " was expected"));
      }
      place_entry(*order[i], next);
      reached = next;
    }
    if (records.empty() && begin_ != 0)
      fail(cat("the first ", begin_, " bytes belong to no entry"));
  }

  std::string_view bytes_;
  const std::string& file_;
  uint64_t begin_ = 0, end_ = 0, count_ = 0;  // of the directory
};

}  // namespace

ZipArchive::ZipArchive(std::string_view bytes, const std::string& file)
    : file_(file), entries_(ZipReader(bytes, file).run()) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!by_name_.emplace(entries_[i].name, i).second) {
      fail_zip(file, cat("two entries are called ", shown(entries_[i].name)));
    }
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
