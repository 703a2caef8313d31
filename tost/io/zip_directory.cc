#include "tost/io/zip_directory.h"

#include <algorithm>

#include "tost/base/error.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr uint32_t kRecordMark = 0x02014b50;
constexpr uint64_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kRecordSize = 46;
constexpr uint16_t kEncrypted = 1 | 1 << 6 | 1 << 13;

// The end record stands at the end of the file; only a comment could follow it.
uint64_t find_end(std::string_view bytes, const std::string& file) {
  if (bytes.size() < kEndSize) fail_zip(file, "it is too short to be one");
  const uint64_t at = bytes.size() - kEndSize;
  if (zip_number<uint32_t>(bytes, at) == kEndMark && zip_number<uint16_t>(bytes, at + 20) == 0) {
    return at;
  }
  const uint64_t first = bytes.size() - std::min<uint64_t>(bytes.size(), kEndSize + 0xffff);
  for (uint64_t i = at; i-- > first;) {
    if (zip_number<uint32_t>(bytes, i) == kEndMark) {
      fail_zip(file, cat(bytes.size() - i - kEndSize,
                         " bytes (a comment, or something appended) follow its end record"));
    }
  }
  fail_zip(file, "its end record is missing; the file may be truncated");
}

// Replaces what the end record says by the zip64 one where there is a locator before it.
uint64_t read_end64(std::string_view bytes, uint64_t at, ZipEnd& found, uint64_t& size,
                    const std::string& file) {
  if (at < kLocatorSize || zip_number<uint32_t>(bytes, at - kLocatorSize) != kLocatorMark) {
    return at;
  }
  const uint64_t locator = at - kLocatorSize;
  if (locator < kEnd64Size || zip_number<uint64_t>(bytes, locator + 8) != locator - kEnd64Size) {
    fail_zip(file, "its zip64 end record is not where the locator says");
  }
  const uint64_t end = locator - kEnd64Size;
  if (zip_number<uint32_t>(bytes, end) != kEnd64Mark ||
      zip_number<uint64_t>(bytes, end + 4) != kEnd64Size - 12) {
    fail_zip(file, "its zip64 end record is damaged");
  }
  if (zip_number<uint32_t>(bytes, locator + 4) != 0 ||
      zip_number<uint32_t>(bytes, locator + 16) > 1 || zip_number<uint64_t>(bytes, end + 16) != 0) {
    fail_zip(file, "it is one part of a split archive");
  }
  const auto count = zip_number<uint64_t>(bytes, end + 32);
  const auto size64 = zip_number<uint64_t>(bytes, end + 40);
  const auto begin = zip_number<uint64_t>(bytes, end + 48);
  const auto agree = [](uint64_t narrow, uint64_t none, uint64_t wide) {
    return narrow == none || narrow == wide;
  };
  if (!agree(found.count, 0xffff, count) || !agree(size, 0xffffffff, size64) ||
      !agree(found.begin, 0xffffffff, begin) || zip_number<uint64_t>(bytes, end + 24) != count) {
    fail_zip(file, "its two end records disagree");
  }
  found.count = count;
  found.begin = begin;
  size = size64;
  return end;
}

void check_name(std::string_view name, const std::string& file) {
  const auto refuse = [&](const char* why) {
    fail_zip(file, cat("the name ", shown(name), " of an entry ", why));
  };
  if (name.empty()) refuse("is empty");
  if (name.size() > 4096) refuse("is longer than 4096 bytes");
  if (!is_utf8(name)) refuse("is not UTF-8");
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) refuse("holds a control character");
    if (c == '\\') refuse("holds a backslash");
  }
  size_t at = 0;
  while (at <= name.size()) {
    const size_t slash = std::min(name.find('/', at), name.size());
    const auto part = name.substr(at, slash - at);
    const bool last_of_folder = part.empty() && at == name.size() && at > 1;
    if (part == "." || part == ".." || (part.empty() && !last_of_folder)) {
      refuse("is not a plain relative path");
    }
    at = slash + 1;
  }
}

ZipRecord read_record(std::string_view bytes, uint64_t at, uint64_t& next, uint64_t end,
                      const std::string& file) {
  if (end - at < kRecordSize || zip_number<uint32_t>(bytes, at) != kRecordMark) {
    fail_zip(file, cat("its directory is damaged at byte ", at));
  }
  const uint64_t name_size = zip_number<uint16_t>(bytes, at + 28);
  const uint64_t extra_size = zip_number<uint16_t>(bytes, at + 30);
  const uint64_t comment_size = zip_number<uint16_t>(bytes, at + 32);
  if (end - at - kRecordSize < name_size + extra_size + comment_size) {
    fail_zip(file, cat("its directory is damaged at byte ", at));
  }
  ZipRecord record;
  record.entry.name = bytes.substr(at + kRecordSize, name_size);
  record.entry.crc = zip_number<uint32_t>(bytes, at + 16);
  record.flags = zip_number<uint16_t>(bytes, at + 8);
  record.size = zip_number<uint32_t>(bytes, at + 24);
  record.header = zip_number<uint32_t>(bytes, at + 42);
  check_name(record.entry.name, file);
  const std::string name = shown(record.entry.name);
  if ((record.flags & kEncrypted) != 0) fail_zip(file, cat("entry ", name, " is encrypted"));
  if (zip_number<uint16_t>(bytes, at + 10) != 0) {
    fail_zip(
        file,
        cat("entry ", name,
            " is compressed; files of torch.save are not (programs of torch.jit.save are, and are "
            "not read)"));
  }
  if (comment_size != 0) fail_zip(file, cat("entry ", name, " has a comment"));
  if (zip_number<uint16_t>(bytes, at + 34) != 0)
    fail_zip(file, "it is one part of a split archive");
  uint64_t stored = zip_number<uint32_t>(bytes, at + 20);
  read_zip64_field(bytes.substr(at + kRecordSize + name_size, extra_size), record.size, stored,
                   &record.header, file, record.entry.name);
  if (stored != record.size) {
    fail_zip(file, cat("entry ", name, " is stored in ", stored, " bytes and has ", record.size));
  }
  next = at + kRecordSize + name_size + extra_size;
  return record;
}

}  // namespace

void fail_zip(const std::string& file, const std::string& what) {
  fail_data("'", file, "' is not a valid torch archive: ", what, ".");
}

ZipEnd read_zip_end(std::string_view bytes, const std::string& file) {
  const uint64_t at = find_end(bytes, file);
  ZipEnd found;
  found.count = zip_number<uint16_t>(bytes, at + 10);
  uint64_t size = zip_number<uint32_t>(bytes, at + 12);
  found.begin = zip_number<uint32_t>(bytes, at + 16);
  if (zip_number<uint32_t>(bytes, at + 4) != 0 ||
      zip_number<uint16_t>(bytes, at + 8) != found.count) {
    fail_zip(file, "it is one part of a split archive");
  }
  found.end = read_end64(bytes, at, found, size, file);
  if (found.begin > found.end || found.end - found.begin != size) {
    fail_zip(file, cat("its directory is said to begin at byte ", found.begin, " and to have ",
                       size, " bytes, but ends at ", found.end));
  }
  if (found.count > static_cast<uint64_t>(kMaxZipEntries)) {
    fail_zip(file, cat("it claims ", found.count, " entries; the limit is ", kMaxZipEntries));
  }
  // A record takes 46 bytes, so a claim is never more than what is there.
  if (found.count > size / kRecordSize) {
    fail_zip(file, cat("it claims ", found.count, " entries, more than its directory can hold"));
  }
  return found;
}

std::vector<ZipRecord> read_zip_directory(std::string_view bytes, const ZipEnd& end,
                                          const std::string& file) {
  std::vector<ZipRecord> records;
  records.reserve(end.count);
  uint64_t at = end.begin;
  for (uint64_t i = 0; i < end.count; ++i) {
    records.push_back(read_record(bytes, at, at, end.end, file));
  }
  if (at != end.end) {
    fail_zip(file, cat(end.end - at, " bytes of its directory belong to no entry"));
  }
  return records;
}

void read_zip64_field(std::string_view extra, uint64_t& size, uint64_t& stored, uint64_t* offset,
                      const std::string& file, std::string_view name) {
  constexpr uint64_t kElsewhere = 0xffffffff;
  const auto refuse = [&](const char* what) {
    fail_zip(file, cat("entry ", shown(name), " has ", what));
  };
  bool seen = false;
  while (!extra.empty()) {
    if (extra.size() < 4) refuse("a damaged extra field");
    const auto kind = zip_number<uint16_t>(extra, 0);
    const uint64_t length = zip_number<uint16_t>(extra, 2);
    if (extra.size() - 4 < length) refuse("a damaged extra field");
    auto field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (kind != 1) continue;
    if (seen) refuse("two zip64 fields");
    seen = true;
    const auto take = [&](uint64_t& value) {
      if (value != kElsewhere) return;
      if (field.size() < 8) refuse("a zip64 field that is too short");
      value = zip_number<uint64_t>(field, 0);
      field.remove_prefix(8);
    };
    take(size);
    take(stored);
    if (offset != nullptr) take(*offset);
  }
}

}  // namespace tost
