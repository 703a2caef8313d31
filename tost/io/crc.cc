#include "tost/io/crc.h"

#include <isa-l/crc.h>

namespace tost {
namespace {

const unsigned char* begin_of(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

uint32_t zip_crc32(std::string_view bytes) {
  return ::crc32_gzip_refl(0, begin_of(bytes), bytes.size());
}

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  constexpr size_t kMost = size_t{1} << 30;  // the library counts in int
  uint32_t crc = ~before;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kMost);
    crc = ::crc32_iscsi(const_cast<unsigned char*>(begin_of(piece)), static_cast<int>(piece.size()),
                        crc);
    bytes.remove_prefix(piece.size());
  }
  return ~crc;
}

}  // namespace tost
