#include "tost/io/safe_text.h"

#include <cstdint>
#include <cstdio>

namespace tost {
namespace {

// The character at `at` and its length; 0 for bytes that are no UTF-8.
struct Character {
  uint32_t code = 0;
  size_t length = 0;
};

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const uint32_t first = byte(at);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() - at < length) return {};
  uint32_t code = first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  return overlong || code > 0x10ffff ? Character{} : Character{code, length};
}

bool misleads(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0x61c ||
         (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || (code >= 0xd800 && code < 0xe000) ||
         code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) ||
         (code >= 0xe0000 && code < 0xe1000);
}

void append_escape(std::string& out, uint32_t code) {
  char buffer[16];
  const char* form = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(buffer, sizeof buffer, form, code);
  out += buffer;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_at(text, at).length;
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string escaped(std::string_view text, size_t most) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (out.size() >= most) return out + "…";
    const Character c = character_at(text, at);
    if (c.length == 0) {
      append_escape(out, static_cast<unsigned char>(text[at]));
      ++at;
      continue;
    }
    if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\\') {
      out += "\\\\";
    } else if (misleads(c.code)) {
      append_escape(out, c.code);
    } else {
      out.append(text.substr(at, c.length));
    }
    at += c.length;
  }
  return out;
}

std::string shown(std::string_view text, size_t most) {
  return "'" + escaped(text, most) + "'";
}

}  // namespace tost
