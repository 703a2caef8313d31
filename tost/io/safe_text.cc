#include "tost/io/safe_text.h"

#include <cstdint>
#include <cstdio>

#include "tost/base/error.h"
#include "tost/base/utf8.h"

namespace tost {
namespace {

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
    const size_t length = utf8_length(text, at, Surrogates::kTaken);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

void require_utf8(std::string_view text, std::string_view what) {
  if (first_invalid_utf8(text) == text.size()) return;
  fail_data(what, " ", shown(text), " is not UTF-8, so that no file of a model could keep it; ",
            "rename it.");
}

std::string escaped(std::string_view text, size_t most) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (out.size() >= most) return out + "…";
    const size_t length = utf8_length(text, at, Surrogates::kTaken);
    if (length == 0) {
      append_escape(out, static_cast<unsigned char>(text[at]));
      ++at;
      continue;
    }
    const uint32_t code = utf8_code_point(text, at, length);
    if (code == '\n') {
      out += "\\n";
    } else if (code == '\\') {
      out += "\\\\";
    } else if (misleads(code)) {
      append_escape(out, code);
    } else {
      out.append(text.substr(at, length));
    }
    at += length;
  }
  return out;
}

std::string shown(std::string_view text, size_t most) {
  return "'" + escaped(text, most) + "'";
}

}  // namespace tost
