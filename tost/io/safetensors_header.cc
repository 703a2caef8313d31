#include "tost/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/io/safetensors_sax.h"

namespace tost {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

struct Dtype {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array kDtypes{
    Dtype{"F32", 4}, Dtype{"F16", 2}, Dtype{"BF16", 2}, Dtype{"F64", 8},     Dtype{"I64", 8},
    Dtype{"I32", 4}, Dtype{"I16", 2}, Dtype{"I8", 1},   Dtype{"U8", 1},      Dtype{"BOOL", 1},
    Dtype{"U16", 2}, Dtype{"U32", 4}, Dtype{"U64", 8},  Dtype{"F8_E5M2", 1}, Dtype{"F8_E4M3", 1},
};

[[noreturn]] void fail_invalid(const std::string& file, const std::string& what) {
  fail_data("'", file, "' is not a valid safetensors file: ", what, ".");
}

// The JSON between the length and the data.
std::string_view header_text(std::string_view bytes, int64_t file_bytes, const std::string& file) {
  if (file_bytes < 8 || bytes.size() < 8) {
    fail_invalid(file, cat("it has ", file_bytes, " bytes, fewer than the 8 of the header length"));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    fail_invalid(file, cat("it claims a header of ", length, " bytes, the limit is ",
                           kMaxSafetensorsHeader));
  }
  if (length > static_cast<uint64_t>(file_bytes) - 8 || length > bytes.size() - 8) {
    fail_invalid(file, cat("it claims a header of ", length, " bytes and ends after ",
                           file_bytes - 8, "; it may be truncated"));
  }
  const auto text = bytes.substr(8, length);
  if (text.empty() || text.front() != '{') fail_invalid(file, "its header does not begin with '{'");
  // The JSON reader takes a raw NUL for the end of its input.
  if (text.find('\0') != text.npos) fail_invalid(file, "its header holds a NUL byte");
  return text;
}

void check_size(const std::string& name, const SafetensorsEntry& entry, const std::string& file) {
  if (entry.begin > entry.end) {
    fail_invalid(file, cat("tensor '", name, "' begins at ", entry.begin, " and ends before, at ",
                           entry.end));
  }
  const std::string what = cat("'", file, "': tensor '", name, "'");
  int64_t bytes = safetensors_dtype_bytes(entry.dtype);
  for (const int64_t side : entry.shape) bytes = checked_mul(bytes, side, what);
  if (bytes != entry.end - entry.begin) {
    fail_invalid(file, cat("tensor '", name, "' needs ", bytes,
                           " bytes for its shape and type and has ", entry.end - entry.begin));
  }
}

// Entries in the order of the data follow each other from 0 to its end.
void check_tiling(const SafetensorsHeader& header, int64_t data_bytes, const std::string& file) {
  std::vector<const std::pair<const std::string, SafetensorsEntry>*> order;
  for (const auto& item : header.entries) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t reached = 0;
  for (const auto* item : order) {
    const auto& [name, entry] = *item;
    if (entry.begin != reached) {
      fail_invalid(file, cat("tensor '", name, "' begins at ", entry.begin, " of the data where ",
                             reached, " was expected, so there is ",
                             entry.begin > reached ? "a hole" : "an overlap"));
    }
    if (entry.end > data_bytes) {
      fail_invalid(file, cat("tensor '", name, "' ends at ", entry.end, " of ", data_bytes,
                             " bytes of data; the file may be truncated"));
    }
    reached = entry.end;
  }
  if (reached != data_bytes) {
    fail_invalid(file, cat(data_bytes - reached, " bytes after the last tensor belong to none"));
  }
}

}  // namespace

int64_t safetensors_dtype_bytes(std::string_view dtype) {
  for (const auto& known : kDtypes) {
    if (known.name == dtype) return known.bytes;
  }
  return 0;
}

SafetensorsHeader parse_safetensors_header(std::string_view bytes, int64_t file_bytes,
                                           const std::string& file) {
  const auto text = header_text(bytes, file_bytes, file);
  SafetensorsHeader header;
  SafetensorsSax sax(header, file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &sax);
  header.data_offset = static_cast<int64_t>(text.size()) + 8;
  for (const auto& [name, entry] : header.entries) check_size(name, entry, file);
  check_tiling(header, file_bytes - header.data_offset, file);
  return header;
}

}  // namespace tost
