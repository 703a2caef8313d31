#include "tost/io/picture_files.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string_view>

#include "tost/base/checked.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

// The most bytes of one call, because zlib counts bytes in 32 bits.
constexpr size_t kInflatePiece = size_t{1} << 30;
constexpr int kGzipOnly = 16 + MAX_WBITS;

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1F\x8B");
}

// Reads a file's content in order, and inflates gzip, in pieces whose size the caller selects.
// `bytes` must outlive the reader; `name` appears in every message.
class ContentReader {
 public:
  ContentReader(std::string_view bytes, std::string name)
      : rest_(bytes), name_(std::move(name)), plain_(!is_gzip(bytes)) {
    if (!plain_ && inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      fail_data("Zlib could not start: out of memory.");
    }
  }
  ~ContentReader() {
    if (!plain_) inflateEnd(&stream_);
  }
  ContentReader(const ContentReader&) = delete;
  ContentReader& operator=(const ContentReader&) = delete;

  // Reads up to `count` bytes, fewer only at the end. Throws a data Error for damaged gzip data,
  // also for a file without its gzip trailer.
  int64_t read(uint8_t* to, int64_t count);

 private:
  std::string_view rest_;
  std::string name_;
  bool plain_;
  bool done_ = false;
  z_stream stream_{};
};

int64_t ContentReader::read(uint8_t* to, int64_t count) {
  const auto wanted = static_cast<size_t>(count);
  if (plain_) {
    const size_t n = std::min(wanted, rest_.size());
    std::memcpy(to, rest_.data(), n);
    rest_.remove_prefix(n);
    return static_cast<int64_t>(n);
  }
  size_t got = 0;
  while (got < wanted && !done_) {
    const size_t offered = std::min(rest_.size(), kInflatePiece);
    const size_t room = std::min(wanted - got, kInflatePiece);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    stream_.avail_in = static_cast<uInt>(offered);
    stream_.next_out = to + got;
    stream_.avail_out = static_cast<uInt>(room);
    const int state = inflate(&stream_, Z_NO_FLUSH);
    rest_.remove_prefix(offered - stream_.avail_in);
    got += room - stream_.avail_out;
    if (state == Z_STREAM_END) {
      done_ = rest_.empty();
      if (!done_) {
        if (!is_gzip(rest_))
          fail_data("'", name_, "' has bytes after its gzip data; fetch it again.");
        inflateReset(&stream_);
      }
    } else if (state == Z_BUF_ERROR && rest_.empty()) {
      fail_data("'", name_, "' is truncated: its gzip data stops early; fetch it again.");
    } else if (state != Z_OK) {
      fail_data("'", name_, "' has damaged gzip data (",
                stream_.msg ? stream_.msg : "unknown reason", "); fetch it again.");
    }
  }
  return static_cast<int64_t>(got);
}

constexpr int64_t kMaxHeader = 4 + 4 * 255;
// Inflates values in pieces, so that a false size takes no more memory than the file's content.
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

constexpr int64_t kMaxFileBytes = int64_t{1} << 30;
constexpr int64_t kMaxNamesBytes = int64_t{1} << 20;
constexpr size_t kMaxNames = 256;  // a label is one byte

void append_planes(const uint8_t* planes, std::vector<uint8_t>& pixels) {
  constexpr int64_t plane = kCifarSide * kCifarSide;
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < 3; ++c) pixels.push_back(planes[c * plane + i]);
  }
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

void append_cifar(const std::string& path, CifarKind kind, int64_t classes, CifarRecords& records) {
  const int64_t label_bytes = kind == CifarKind::kCifar10 ? 1 : 2;
  const int64_t record = label_bytes + kCifarImageBytes;
  const std::string bytes = read_file(path, kMaxFileBytes);
  const auto size = static_cast<int64_t>(bytes.size());
  if (size == 0 || size % record != 0) {
    fail_data("'", path, "' has ", size, " bytes, not a multiple of the ", record, " bytes of a ",
              kind == CifarKind::kCifar10 ? "CIFAR-10" : "CIFAR-100",
              " record; it is truncated or of another format.");
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  records.labels.reserve(records.labels.size() + static_cast<size_t>(size / record));
  records.pixels.reserve(records.pixels.size() + static_cast<size_t>(size));
  for (int64_t at = 0; at < size; at += record) {
    const uint8_t label = data[at + label_bytes - 1];
    if (label >= classes) {
      fail_data("'", path, "' has label ", int{label}, " in record ", at / record,
                ", but there are only ", classes, " classes.");
    }
    records.labels.push_back(label);
    append_planes(data + at + label_bytes, records.pixels);
  }
}

std::vector<std::string> read_class_names(const std::string& path) {
  std::istringstream lines(read_file(path, kMaxNamesBytes));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    names.push_back(line);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) fail_data("'", path, "' holds no class name; it needs one a line.");
  if (names.size() > kMaxNames) {
    fail_data("'", path, "' holds ", names.size(), " class names; at most ", kMaxNames,
              " are possible.");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail_data("'", path, "' has an empty class name in line ", i + 1, ".");
    require_utf8(names[i], cat("The class name in line ", i + 1, " of '", path, "',"));
    const auto place = std::find(names.begin(), names.end(), names[i]) - names.begin();
    if (size_t(place) < i) {
      fail_data("'", path, "' has the class name '", names[i], "' in lines ", place + 1, " and ",
                i + 1, "; each class needs its own.");
    }
  }
  return names;
}

}  // namespace tost
