// The header of a safetensors file: a little-endian length of 8 bytes, then JSON of this length
// with every tensor's type, shape and offsets, then the data. Free of torch.
//
// The reader is stricter than the reference implementation. The reader refuses a first byte other
// than '{', duplicate names, unknown fields of a tensor, lists in place of a tensor's object, more
// than 64 dimensions, and unsupported types (4 and 6 bits, complex numbers, scales).
// tests/python/test_safetensors.py compares both implementations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tost {

inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, the format's limit

struct SafetensorsEntry {
  std::string dtype;           // "F32", …; always one that dtype_bytes() knows
  std::vector<int64_t> shape;  // each >= 0; the product fits the place exactly
  int64_t begin = 0, end = 0;  // bytes from the start of the data
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
  int64_t data_offset = 0;  // of the data from the start of the file
};

// Reads and checks the header. `bytes` is the file's beginning, at least through the header;
// `file_bytes` is the size of the file, `file` its name in messages. On return the entries cover
// the data without gap and overlap. Throws a data Error otherwise. Time and memory are linear in
// the header's length.
SafetensorsHeader parse_safetensors_header(std::string_view bytes, int64_t file_bytes,
                                           const std::string& file);

}  // namespace tost
