#include <cstddef>

#include "tost/report/page.h"

namespace tost {
namespace {

// RFC 4648.
void append_base64(std::string& out, std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t held = bytes.size() - at < 3 ? bytes.size() - at : 3;
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < held ? static_cast<uint8_t>(bytes[at + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= held ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
}

}  // namespace

std::string png_data_uri(const Image& image) {
  std::string uri = "data:image/png;base64,";
  append_base64(uri, encode_png(image));
  return uri;
}

}  // namespace tost
