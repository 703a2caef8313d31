// Zip archives of stored entries, written: what zip_archive.h reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tost/base/file.h"

namespace tost {

// Writes into path + ".tmp" and puts it in place when all is durable; without finish() nothing
// stays. Every entry's bytes begin at a multiple of 64, as in torch's files, so that they can be
// used where they lie. Sizes beyond 4 GiB are written as zip64.
class ZipWriter {
 public:
  explicit ZipWriter(std::filesystem::path path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // `name` is plain, relative and new.
  void add(const std::string& name, std::string_view bytes);
  void finish();

 private:
  struct Entry {
    std::string name;
    uint64_t size = 0, header = 0;  // header: of the local one, from the start of the file
    uint32_t crc = 0;
  };

  void write(std::string_view bytes);
  void write_record(const Entry& entry);
  void write_end(uint64_t begin);

  std::filesystem::path path_, partial_;
  OutputFile out_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
  bool finished_ = false;
};

}  // namespace tost
