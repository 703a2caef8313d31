// The idx format of MNIST: two zero bytes, a type byte (8 for unsigned bytes), the number of
// dimensions, 4 big-endian bytes for each dimension, and then the values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tost {

struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;  // row-major
};

// Reads an idx file of unsigned bytes, plain or gzip-compressed. Throws a data Error naming the
// file if it is missing or not idx, has another type or number of dimensions, an impossible
// dimension, more than `max_bytes` bytes (checked before allocation), or another length than the
// header says.
IdxArray read_idx(const std::string& path, int64_t dimensions,
                  int64_t max_bytes = int64_t{4} << 30);

}  // namespace tost
