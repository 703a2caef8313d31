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

// Reads an idx file of unsigned bytes, plain or gzip-compressed. Throws a data Error naming the
// file if it is missing or not idx, has another type or number of dimensions, has a dimension that
// is 0 or too large, claims more than `max_bytes` (checked before allocation), or has fewer or more
// bytes than its header claims.
IdxArray read_idx(const std::string& path, int64_t dimensions,
                  int64_t max_bytes = int64_t{4} << 30);

}  // namespace tost
