// Archives that break one rule each, and their closest valid neighbours.
#include <gtest/gtest.h>

#include <functional>

#include "tost/base/error.h"
#include "tost/io/torch_test_util.h"
#include "tost/io/zip_archive.h"

namespace tost {
namespace zip_malformed_test {

using testing::make_zip;
using testing::number;
using testing::patch;
using testing::ZipBytes;
using testing::ZipItem;

const std::vector<ZipItem> kItems = {{"m/a", "first"}, {"m/b", ""}, {"m/c", std::string(100, 'c')}};

// What a reader says to it; "" where it is valid and every entry reads back.
std::string refusal(const std::string& bytes, const std::vector<ZipItem>& items = kItems) {
  try {
    const ZipArchive archive(bytes, "x.pt");
    if (archive.entries().size() != items.size()) return "another number of entries";
    for (const ZipItem& item : items) {
      const ZipEntry* entry = archive.find(item.name);
      if (entry == nullptr || archive.read(*entry) != item.data)
        return "another entry " + item.name;
    }
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
}

struct Case {
  const char* name;
  std::function<void(ZipBytes&)> change;
  const char* message;
};

void cut(ZipBytes& zip, size_t size) {
  zip.bytes.resize(size);
}

const Case kCases[] = {
    {"untouched", [](ZipBytes&) {}, ""},
    {"empty", [](ZipBytes& z) { cut(z, 0); }, "too short"},
    {"half", [](ZipBytes& z) { cut(z, z.bytes.size() / 2); }, "may be truncated"},
    {"last_byte_missing", [](ZipBytes& z) { z.bytes.pop_back(); }, "may be truncated"},
    {"byte_appended", [](ZipBytes& z) { z.bytes += 'x'; }, "1 bytes (a comment"},
    {"comment",
     [](ZipBytes& z) {
       patch(z.bytes, z.end + 20, 3, 2);
       z.bytes += "abc";
     },
     "3 bytes (a comment"},
    {"second_disk", [](ZipBytes& z) { patch(z.bytes, z.end + 4, 1, 2); }, "split archive"},
    {"directory_on_disk_1", [](ZipBytes& z) { patch(z.bytes, z.end + 6, 1, 2); }, "split archive"},
    {"counts_differ", [](ZipBytes& z) { patch(z.bytes, z.end + 8, 2, 2); }, "split archive"},
    {"count_too_small",
     [](ZipBytes& z) {
       patch(z.bytes, z.end + 8, 2, 2);
       patch(z.bytes, z.end + 10, 2, 2);
     },
     "belong to no entry"},
    {"count_too_large",
     [](ZipBytes& z) {
       patch(z.bytes, z.end + 8, 4, 2);
       patch(z.bytes, z.end + 10, 4, 2);
     },
     "more than its directory can hold"},
    {"count_far_too_large",
     [](ZipBytes& z) {
       patch(z.bytes, z.end + 8, 0xfffe, 2);
       patch(z.bytes, z.end + 10, 0xfffe, 2);
     },
     "more than its directory can hold"},
    {"directory_size_one_less",
     [](ZipBytes& z) { patch(z.bytes, z.end + 12, z.end - z.directory - 1, 4); }, "but ends at"},
    {"directory_size_huge", [](ZipBytes& z) { patch(z.bytes, z.end + 12, 0xfffffffe, 4); },
     "but ends at"},
    {"directory_begins_late", [](ZipBytes& z) { patch(z.bytes, z.end + 16, 0xfffffffe, 4); },
     "but ends at"},
    {"directory_mark", [](ZipBytes& z) { z.bytes[z.record[1]] = 'Q'; }, "directory is damaged"},
    {"name_length", [](ZipBytes& z) { patch(z.bytes, z.record[2] + 28, 0xffff, 2); },
     "directory is damaged"},
    {"extra_length", [](ZipBytes& z) { patch(z.bytes, z.record[2] + 30, 0xffff, 2); },
     "directory is damaged"},
    {"comment_length", [](ZipBytes& z) { patch(z.bytes, z.record[0] + 32, 4, 2); },
     "has a comment"},
    {"encrypted", [](ZipBytes& z) { patch(z.bytes, z.record[0] + 8, 1, 2); }, "is encrypted"},
    {"strong_encryption", [](ZipBytes& z) { patch(z.bytes, z.record[0] + 8, 64, 2); },
     "is encrypted"},
    {"deflated", [](ZipBytes& z) { patch(z.bytes, z.record[0] + 10, 8, 2); }, "is compressed"},
    {"deflated_in_header", [](ZipBytes& z) { patch(z.bytes, z.local[0] + 8, 8, 2); },
     "disagree about entry 'm/a'"},
    {"stored_size_differs", [](ZipBytes& z) { patch(z.bytes, z.record[0] + 20, 4, 4); },
     "is stored in 4 bytes and has 5"},
    {"entry_on_disk_1", [](ZipBytes& z) { patch(z.bytes, z.record[0] + 34, 1, 2); },
     "split archive"},
    {"size_too_small",
     [](ZipBytes& z) {
       patch(z.bytes, z.record[0] + 20, 4, 4);
       patch(z.bytes, z.record[0] + 24, 4, 4);
     },
     "disagree about entry 'm/a'"},
    {"size_10_gb_claimed",
     [](ZipBytes& z) {
       for (const size_t at : {z.record[0] + 20, z.record[0] + 24})
         patch(z.bytes, at, 0xfffffffe, 4);
       for (const size_t at : {z.local[0] + 18, z.local[0] + 22}) patch(z.bytes, at, 0xfffffffe, 4);
     },
     "claims 4294967294 bytes where 5"},
    {"zip64_size_without_field",
     [](ZipBytes& z) {
       patch(z.bytes, z.record[0] + 20, 0xffffffff, 4);
       patch(z.bytes, z.record[0] + 24, 0xffffffff, 4);
     },
     "claims 4294967295 bytes where 5"},
    {"checksum_of_header", [](ZipBytes& z) { z.bytes[z.local[0] + 14] ^= 1; },
     "disagree about entry 'm/a'"},
    {"checksum_of_directory", [](ZipBytes& z) { z.bytes[z.record[0] + 16] ^= 1; },
     "disagree about entry 'm/a'"},
    {"checksum_of_both",
     [](ZipBytes& z) {
       z.bytes[z.local[0] + 14] ^= 1;
       z.bytes[z.record[0] + 16] ^= 1;
     },
     "the checksum of entry 'm/a' does not fit"},
    {"data_changed", [](ZipBytes& z) { z.bytes[z.data[2] + 50] ^= 0x10; },
     "the checksum of entry 'm/c' does not fit"},
    {"header_mark", [](ZipBytes& z) { z.bytes[z.local[1]] = 'Q'; }, "has no header at byte"},
    {"header_name", [](ZipBytes& z) { z.bytes[z.local[0] + 30] = 'n'; }, "disagree about entry"},
    {"header_name_length", [](ZipBytes& z) { patch(z.bytes, z.local[0] + 26, 4, 2); },
     "disagree about entry"},
    {"header_extra_reaches_out", [](ZipBytes& z) { patch(z.bytes, z.local[0] + 28, 500, 2); },
     "reaches into the next entry"},
    {"header_extra_eats_data", [](ZipBytes& z) { patch(z.bytes, z.local[0] + 28, 4, 2); },
     "damaged extra field"},
    {"header_flags", [](ZipBytes& z) { patch(z.bytes, z.local[0] + 6, 8, 2); },
     "disagree about entry"},
    {"descriptor_promised",
     [](ZipBytes& z) {
       patch(z.bytes, z.local[0] + 6, 8, 2);
       patch(z.bytes, z.record[0] + 8, 8, 2);
       patch(z.bytes, z.local[0] + 14, 0, 8);
       patch(z.bytes, z.local[0] + 22, 0, 4);
     },
     "are not the descriptor it needs"},
    {"same_place_twice", [](ZipBytes& z) { patch(z.bytes, z.record[1] + 42, z.local[0], 4); },
     "two entries lie at byte 0"},
    {"place_inside_another",
     [](ZipBytes& z) { patch(z.bytes, z.record[1] + 42, z.local[1] - 3, 4); },
     "claims 5 bytes where 2"},
    {"place_past_directory", [](ZipBytes& z) { patch(z.bytes, z.record[2] + 42, z.end, 4); },
     "where"},
    {"place_huge", [](ZipBytes& z) { patch(z.bytes, z.record[0] + 42, 0xfffffffe, 4); }, "where 0"},
    {"first_entry_missing",
     [](ZipBytes& z) {
       z.bytes.erase(z.record[0], z.record[1] - z.record[0]);
       const size_t end = z.bytes.size() - 22;
       patch(z.bytes, end + 8, 2, 2);
       patch(z.bytes, end + 10, 2, 2);
       patch(z.bytes, end + 12, end - z.directory, 4);
     },
     "where 0 was expected"},
};

TEST(MalformedZip, EveryCaseIsRefusedForItsOwnReason) {
  for (const Case& c : kCases) {
    ZipBytes zip = make_zip(kItems);
    c.change(zip);
    const std::string refused_with = refusal(zip.bytes);
    if (*c.message == '\0') {
      EXPECT_EQ(refused_with, "") << c.name;
    } else {
      EXPECT_NE(refused_with.find(c.message), std::string::npos) << c.name << ": " << refused_with;
    }
  }
  EXPECT_GE(std::size(kCases), 40u);
}

TEST(MalformedZip, NamesAreRefused) {
  const std::pair<std::string, const char*> names[] = {
      {"", "is empty"},
      {"/etc/passwd", "not a plain relative path"},
      {"../a", "not a plain relative path"},
      {"m/../a", "not a plain relative path"},
      {"m/./a", "not a plain relative path"},
      {"m//a", "not a plain relative path"},
      {"m\\a", "holds a backslash"},
      {"m/\x1b[2J", "holds a control character"},
      {std::string("m/a\0b", 5), "holds a control character"},
      {"m/\xff", "is not UTF-8"},
      {"m/" + std::string(5000, 'a'), "longer than 4096"},
      {"m/", ""},
      {"m/\xc3\xa9", ""},
  };
  for (const auto& [name, message] : names) {
    const std::vector<ZipItem> items = {{name, ""}};
    const std::string refused_with = refusal(make_zip(items).bytes, items);
    EXPECT_NE(refused_with.find(message), std::string::npos) << name << ": " << refused_with;
    if (*message == '\0') {
      EXPECT_EQ(refused_with, "");
    }
  }
  const std::string twice = refusal(make_zip({{"m/a", "1"}, {"m/a", "2"}}).bytes);
  EXPECT_NE(twice.find("two entries are called 'm/a'"), std::string::npos) << twice;
}

TEST(Zip, EntriesWithDescriptorsAndNoneAtAllAreRead) {
  EXPECT_EQ(refusal(make_zip(kItems, true).bytes), "");
  EXPECT_EQ(refusal(make_zip({}).bytes, {}), "");
  ZipBytes zip = make_zip(kItems, true);
  zip.bytes[zip.data[0] + 5 + 4] ^= 1;  // the descriptor's checksum
  EXPECT_NE(refusal(zip.bytes).find("are not the descriptor"), std::string::npos);
}

// The end records of zip64, which torch always writes.
std::string with_zip64(uint64_t count, uint64_t size, uint64_t begin, uint64_t locator_shift = 0) {
  const ZipBytes zip = make_zip(kItems);
  const uint64_t at = zip.end;
  std::string end = zip.bytes.substr(zip.end);
  patch(end, 8, 0xffff, 2);
  patch(end, 10, 0xffff, 2);
  patch(end, 12, 0xffffffff, 4);
  patch(end, 16, 0xffffffff, 4);
  return zip.bytes.substr(0, zip.end) + "PK\x06\x06" + number(44, 8) + number(0, 12) +
         number(count, 8) + number(count, 8) + number(size, 8) + number(begin, 8) + "PK\x06\x07" +
         number(0, 4) + number(at + locator_shift, 8) + number(1, 4) + end;
}

TEST(MalformedZip, Zip64RecordsMustFit) {
  const ZipBytes zip = make_zip(kItems);
  const uint64_t size = zip.end - zip.directory;
  EXPECT_EQ(refusal(with_zip64(3, size, zip.directory)), "");
  const std::pair<std::string, const char*> cases[] = {
      {with_zip64(3, size, zip.directory, 1), "not where the locator says"},
      {with_zip64(3, size, zip.directory, UINT64_MAX), "not where the locator says"},
      {with_zip64(UINT64_MAX, size, zip.directory), "the limit is 1000000"},
      {with_zip64(1000001, size, zip.directory), "the limit is 1000000"},
      {with_zip64(3, UINT64_MAX, zip.directory), "but ends at"},
      {with_zip64(3, size, UINT64_MAX), "but ends at"},
      {with_zip64(3, size + 1, zip.directory - 1), "directory is damaged"},
  };
  for (const auto& [bytes, message] : cases) {
    const std::string refused_with = refusal(bytes);
    EXPECT_NE(refused_with.find(message), std::string::npos) << message << ": " << refused_with;
  }
  std::string disagree = with_zip64(3, size, zip.directory);
  patch(disagree, disagree.size() - 22 + 16, 5, 4);
  EXPECT_NE(refusal(disagree).find("two end records disagree"), std::string::npos);
}

TEST(Zip, EveryTruncationAndEveryFlippedBitIsRefusedOrHarmless) {
  const ZipBytes zip = make_zip(kItems);
  for (size_t size = 0; size < zip.bytes.size(); ++size) {
    EXPECT_NE(refusal(zip.bytes.substr(0, size)), "") << size;
  }
  for (size_t bit = 0; bit < zip.bytes.size() * 8; ++bit) {
    std::string bytes = zip.bytes;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    refusal(bytes);
  }
}

}  // namespace zip_malformed_test
}  // namespace tost
