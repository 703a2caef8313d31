// Scalar curves in TensorBoard's own file format: framed records, each an encoded tensorflow.Event.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tost/base/file.h"

namespace tost {

using Scalars = std::vector<std::pair<std::string, double>>;  // tag, value

// One record: length (8 bytes, little endian), its masked CRC-32C, the data, the data's masked
// CRC-32C.
std::string frame_record(std::string_view data);

// Encoded Event messages (proto3 wire format). `wall_time` is seconds since 1970.
std::string encode_file_version(double wall_time);
std::string encode_scalars(double wall_time, int64_t step, const Scalars& scalars);
// Tells readers to drop what earlier files of this directory hold from `step` on (SessionLog
// START).
std::string encode_session_start(double wall_time, int64_t step);

// Writes `events.out.tfevents.SECONDS.N.tost` in a directory. Every call throws a data Error on
// failure.
class EventFile {
 public:
  // A new file each time, so a resumed run never touches what was written before; with
  // first_step > 0 readers are told that steps from there on are written again.
  EventFile(const std::filesystem::path& directory, int64_t first_step);

  void add(int64_t step, const Scalars& scalars);
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  OutputFile file_;
};

}  // namespace tost
