#include <algorithm>
#include <cstdint>

#include "tost/io/safe_text.h"

namespace tost {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int digit(char c) {
  const size_t found = kDigits.find(c);
  return found == kDigits.npos ? -1 : static_cast<int>(found);
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<uint8_t>(bytes[at + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      text.push_back(k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=');
    }
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += 4) {
    const std::string_view four = text.substr(at, 4);
    const bool last = at + 4 == text.size();
    const size_t padding = !last ? 0 : four.ends_with("==") ? 2 : four.ends_with("=") ? 1 : 0;
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int value = k < 4 - padding ? digit(four[k]) : 0;
      if (value < 0) return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    if ((group & ((1u << (8 * padding)) - 1)) != 0) return std::nullopt;
    for (size_t k = 0; k < 3 - padding; ++k) {
      bytes.push_back(static_cast<char>(group >> (16 - 8 * k)));
    }
  }
  return bytes;
}

}  // namespace tost
