#include "tost/train/event_file.h"

#include <chrono>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/io/crc.h"
#include "tost/io/protobuf.h"

namespace tost {
namespace {

// Event: wall_time = 1 (double), step = 2 (int64), file_version = 3, summary = 5, session_log = 7.
Protobuf event_head(double wall_time, int64_t step) {
  return Protobuf().real(1, wall_time).varint(2, step);
}

// TensorFlow masks the CRC so that a CRC stored inside data does not weaken the check of that data.
uint32_t masked_crc(std::string_view data) {
  const uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path new_path(const std::filesystem::path& directory) {
  const std::string stem = cat("events.out.tfevents.", int64_t(now()), ".");
  for (int n = 0;; ++n) {
    const auto path = directory / cat(stem, n, ".tost");
    if (!path_exists(path)) return path;
  }
}

}  // namespace

std::string frame_record(std::string_view data) {
  std::string record;
  put_little_endian(record, uint64_t(data.size()));
  put_little_endian(record, masked_crc(record));
  record.append(data);
  put_little_endian(record, masked_crc(data));
  return record;
}

std::string encode_file_version(double wall_time) {
  return event_head(wall_time, 0).bytes(3, "brain.Event:2").text();
}

std::string encode_scalars(double wall_time, int64_t step, const Scalars& scalars) {
  Protobuf summary;
  for (const auto& [tag, number] : scalars) {
    // Summary.Value: tag = 1, simple_value = 2 (float)
    summary.message(1, Protobuf().bytes(1, tag).real32(2, float(number)));
  }
  return event_head(wall_time, step).message(5, summary).text();
}

std::string encode_session_start(double wall_time, int64_t step) {
  // SessionLog: status = 1 (START = 1)
  return event_head(wall_time, step).message(7, Protobuf().varint(1, 1)).text();
}

EventFile::EventFile(const std::filesystem::path& directory, int64_t first_step)
    : path_(new_path(directory)), file_(path_) {
  sync_directory(directory);
  file_.write(frame_record(encode_file_version(now())));
  if (first_step > 0) file_.write(frame_record(encode_session_start(now(), first_step)));
}

void EventFile::add(int64_t step, const Scalars& scalars) {
  file_.write(frame_record(encode_scalars(now(), step, scalars)));
}

void EventFile::flush() {
  file_.sync();
}

}  // namespace tost
