#include "tost/base/utf8.h"

#include <algorithm>

namespace tost {
namespace {

bool continues(std::string_view text, size_t at, uint8_t low, uint8_t high) {
  return at < text.size() && static_cast<uint8_t>(text[at]) >= low &&
         static_cast<uint8_t>(text[at]) <= high;
}

}  // namespace

size_t utf8_length(std::string_view text, size_t at, Surrogates surrogates) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  // The second byte's range excludes overlong forms, surrogates and characters above U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const bool no_surrogates = lead == 0xED && surrogates == Surrogates::kRefused;
  const uint8_t high = no_surrogates ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!continues(text, at + 1, low, high)) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t k = 2; k < length; ++k) {
    if (!continues(text, at + k, 0x80, 0xBF)) return 0;
  }
  return length;
}

uint32_t utf8_code_point(std::string_view text, size_t at, size_t length) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (length == 1) return lead;
  uint32_t code = lead & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length; ++k) code = code << 6 | (static_cast<uint8_t>(text[at + k]) & 63u);
  return code;
}

void append_utf8(std::string& text, uint32_t code_point) {
  if (code_point < 0x80) return text.push_back(static_cast<char>(code_point));
  const int more = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0x00, 0xC0, 0xE0, 0xF0};
  text.push_back(static_cast<char>(kLead[more] | code_point >> (6 * more)));
  for (int k = more - 1; k >= 0; --k) {
    text.push_back(static_cast<char>(0x80u | (code_point >> (6 * k) & 63u)));
  }
}

size_t first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return at;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace tost
