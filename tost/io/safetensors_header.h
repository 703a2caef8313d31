// The header of a safetensors file: 8 bytes little-endian length, then that many bytes of JSON
// naming every tensor's type, shape and place, then the data. Free of torch.
//
// Stricter than the reference implementation where it ignores what the format forbids or what could
// mislead: a first byte other than '{', duplicate names (tensors, metadata), unknown fields of a
// tensor, tensors described by a list instead of an object, and those of more than 64 dimensions
// are refused, and so are types that are not read (of 4 and 6 bits, complex numbers, scales).
// tests/python/test_safetensors.py compares the two case by case.
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

// Bytes of one element, 0 for a name this project does not read (the 4-bit and 6-bit types, for
// example).
int64_t safetensors_dtype_bytes(std::string_view dtype);

// Reads and checks the header. `bytes` is the file's beginning, at least through the header;
// `file_bytes` its whole size; `file` its name for messages. On return the entries tile the data
// without hole, overlap or rest. Throws a data Error otherwise. Time and memory are linear in the
// header's length.
SafetensorsHeader parse_safetensors_header(std::string_view bytes, int64_t file_bytes,
                                           const std::string& file);

}  // namespace tost
