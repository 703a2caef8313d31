// The idx format of the MNIST family: two zero bytes, a type byte (8 = unsigned byte), the number
// of dimensions, each dimension as 4 big-endian bytes, then the values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tost {

struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;  // row-major
};

// Reads an idx file of unsigned bytes, plain or gzip-compressed (detected by its content).
// Throws a data Error naming the file for: a missing file, not idx, another value type, a number of
// dimensions other than `dimensions`, a zero or overlong dimension, more than `max_bytes` claimed
// (checked before allocating), fewer or more bytes than the header claims.
IdxArray read_idx(const std::string& path, int64_t dimensions,
                  int64_t max_bytes = int64_t{4} << 30);

}  // namespace tost
