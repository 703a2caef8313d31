#include "tost/io/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "tost/base/error.h"

namespace tost {
namespace {

// zlib counts in 32 bits.
constexpr size_t kInflatePiece = size_t{1} << 30;
constexpr int kGzipOnly = 16 + MAX_WBITS;

}  // namespace

struct ContentReader::Inflater {
  z_stream stream{};
  bool done = false;

  Inflater() {
    if (inflateInit2(&stream, kGzipOnly) != Z_OK) fail_data("Zlib could not start: out of memory.");
  }
  ~Inflater() { inflateEnd(&stream); }
};

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1F\x8B");
}

ContentReader::ContentReader(std::string_view bytes, std::string name)
    : rest_(bytes), name_(std::move(name)) {
  if (is_gzip(bytes)) inflater_ = std::make_unique<Inflater>();
}

ContentReader::~ContentReader() = default;

int64_t ContentReader::read(uint8_t* to, int64_t count) {
  const auto wanted = static_cast<size_t>(count);
  if (!inflater_) {
    const size_t n = std::min(wanted, rest_.size());
    std::memcpy(to, rest_.data(), n);
    rest_.remove_prefix(n);
    return static_cast<int64_t>(n);
  }
  size_t got = 0;
  z_stream& stream = inflater_->stream;
  while (got < wanted && !inflater_->done) {
    const size_t offered = std::min(rest_.size(), kInflatePiece);
    const size_t room = std::min(wanted - got, kInflatePiece);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    stream.avail_in = static_cast<uInt>(offered);
    stream.next_out = to + got;
    stream.avail_out = static_cast<uInt>(room);
    const int state = inflate(&stream, Z_NO_FLUSH);
    rest_.remove_prefix(offered - stream.avail_in);
    got += room - stream.avail_out;
    if (state == Z_STREAM_END) {
      inflater_->done = rest_.empty();
      if (!inflater_->done) {
        if (!is_gzip(rest_))
          fail_data("'", name_, "' has bytes after its gzip data; fetch it again.");
        inflateReset(&stream);
      }
    } else if (state == Z_BUF_ERROR && rest_.empty()) {
      fail_data("'", name_, "' is truncated: its gzip data stops early; fetch it again.");
    } else if (state != Z_OK) {
      fail_data("'", name_, "' has damaged gzip data (", stream.msg ? stream.msg : "unknown reason",
                "); fetch it again.");
    }
  }
  return static_cast<int64_t>(got);
}

}  // namespace tost
