#include "tost/io/idx.h"

#include <algorithm>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/gzip.h"

namespace tost {
namespace {

constexpr int64_t kMaxHeader = 4 + 4 * 255;
// Values are inflated in pieces: a false claim costs memory only as far as the file goes.
constexpr int64_t kPiece = int64_t{16} << 20;

std::vector<int64_t> read_header(ContentReader& content, const std::string& path,
                                 int64_t dimensions) {
  uint8_t magic[4];
  if (content.read(magic, 4) < 4)
    fail_data("'", path, "' is too short for an idx header; fetch it again.");
  if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0) {
    fail_data("'", path,
              "' is not an idx file: it does not begin with two zero bytes, a type and a rank.");
  }
  if (magic[2] != 8) {
    fail_data("'", path, "' holds idx values of type ", int{magic[2]},
              "; only type 8 (unsigned bytes) is read.");
  }
  if (magic[3] != dimensions) {
    fail_data("'", path, "' has ", int{magic[3]}, " dimensions, expected ", dimensions,
              dimensions == 1 ? " (labels)" : " (count, height, width)",
              "; are images and labels exchanged?");
  }
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < dimensions; ++i) {
    uint8_t bytes[4];
    if (content.read(bytes, 4) < 4) fail_data("'", path, "' is truncated inside its idx header.");
    dims.push_back(int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3]);
    if (dims.back() == 0) fail_data("'", path, "' has a dimension of length 0: it is empty.");
  }
  return dims;
}

}  // namespace

IdxArray read_idx(const std::string& path, int64_t dimensions, int64_t max_bytes) {
  const std::string bytes = read_file(path, checked_add(max_bytes, kMaxHeader, "an idx file"));
  ContentReader content(bytes, path);
  IdxArray array;
  array.dims = read_header(content, path, dimensions);
  int64_t claimed = 1;
  for (int64_t dim : array.dims) claimed = checked_mul(claimed, dim, cat("the idx size of ", path));
  if (claimed > max_bytes) {
    fail_data("'", path, "' claims ", claimed, " bytes of values, above the limit of ", max_bytes,
              ".");
  }
  int64_t have = 0;
  while (have < claimed) {
    const int64_t want = std::min(kPiece, claimed - have);
    array.values.resize(static_cast<size_t>(have + want));
    const int64_t got = content.read(array.values.data() + have, want);
    have += got;
    if (got < want) {
      fail_data("'", path, "' is truncated: its header claims ", claimed, " values, it holds ",
                have, "; fetch it again.");
    }
  }
  uint8_t extra;
  if (content.read(&extra, 1) != 0) {
    fail_data("'", path, "' holds more than the ", claimed,
              " values its header claims; fetch it again.");
  }
  return array;
}

}  // namespace tost
