// The directory of a zip archive: where it lies, and its records.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tost/io/zip_archive.h"

namespace tost {

// Where the directory lies and how many records it has, from the end records (zip64 or not).
struct ZipEnd {
  uint64_t begin = 0, end = 0;  // of the directory
  uint64_t count = 0;
};

[[noreturn]] void fail_zip(const std::string& file, const std::string& what);

ZipEnd read_zip_end(std::string_view bytes, const std::string& file);

// The records in their order, each checked by itself; their `bytes` are not set.
std::vector<ZipRecord> read_zip_directory(std::string_view bytes, const ZipEnd& end,
                                          const std::string& file);

// Sizes and offset that stand in a header, replaced from its zip64 field where it says so. `extra`
// must be a list of fields without rest. `offset` may be null (local headers have none).
void read_zip64_field(std::string_view extra, uint64_t& size, uint64_t& stored, uint64_t* offset,
                      const std::string& file, std::string_view name);

// A little-endian number at `at`, which the caller has checked to be inside.
template <typename T>
T zip_number(std::string_view bytes, uint64_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[at + i])) << (8 * i));
  }
  return value;
}

}  // namespace tost
