#include "tost/train/event_file.h"

#include <bit>
#include <chrono>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/io/crc32c.h"

namespace tost {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class UInt>
void put_little_endian(std::string& out, UInt value) {
  for (size_t i = 0; i < sizeof(UInt); ++i) out.push_back(char(value >> (8 * i)));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(char(value | 0x80));
  out.push_back(char(value));
}

void put_tag(std::string& out, int field, WireType type) {
  put_varint(out, uint64_t(field) << 3 | type);
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// Event: wall_time = 1 (double), step = 2 (int64), file_version = 3, summary = 5, session_log = 7.
std::string event_head(double wall_time, int64_t step) {
  std::string event;
  put_tag(event, 1, kFixed64);
  put_little_endian(event, std::bit_cast<uint64_t>(wall_time));
  put_tag(event, 2, kVarint);
  put_varint(event, uint64_t(step));
  return event;
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
  std::string event = event_head(wall_time, 0);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string encode_scalars(double wall_time, int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;  // Summary.Value: tag = 1, simple_value = 2 (float)
    put_bytes(value, 1, tag);
    put_tag(value, 2, kFixed32);
    put_little_endian(value, std::bit_cast<uint32_t>(float(number)));
    put_bytes(summary, 1, value);
  }
  std::string event = event_head(wall_time, step);
  put_bytes(event, 5, summary);
  return event;
}

std::string encode_session_start(double wall_time, int64_t step) {
  std::string session;  // SessionLog: status = 1 (START = 1)
  put_tag(session, 1, kVarint);
  put_varint(session, 1);
  std::string event = event_head(wall_time, step);
  put_bytes(event, 7, session);
  return event;
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
