// Data sets of pictures in the formats of their authors: idx (MNIST) and CIFAR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tost {

// The idx format: two zero bytes, a type byte (8 for unsigned bytes), the number of dimensions, 4
// big-endian bytes for each dimension, and then the values.
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

// The CIFAR formats: records of one label byte (CIFAR-10) or a coarse and a fine one (CIFAR-100),
// then 1,024 red, 1,024 green and 1,024 blue bytes of a 32 x 32 picture.
inline constexpr int64_t kCifarSide = 32;
inline constexpr int64_t kCifarImageBytes = 3 * kCifarSide * kCifarSide;

enum class CifarKind { kCifar10, kCifar100 };

struct CifarRecords {
  std::vector<uint8_t> labels;  // CIFAR-100: the fine label
  std::vector<uint8_t> pixels;  // [count, 32, 32, 3]: channels last, unlike the file
};

// Appends a file's records. Throws a data Error naming the file if it is missing, empty, longer
// than 1 GiB or no multiple of the record's size, or has a label that is not below `classes`.
void append_cifar(const std::string& path, CifarKind kind, int64_t classes, CifarRecords& records);

// Reads a class name from each line (batches.meta.txt, fine_label_names.txt), ignoring blank lines
// at the end. Throws a data Error for no names, more than 256 names, and an empty or repeated name.
std::vector<std::string> read_class_names(const std::string& path);

}  // namespace tost
