#include "tost/report/text.h"

#include <charconv>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/utf8.h"
#include "tost/report/drawing.h"
#include "tost/report/page.h"

namespace tost {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;
constexpr uint32_t kEllipsis = 0x2026;

bool may_be_shown(uint32_t code) {
  if (code == '\t' || code == '\n') return true;
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
  return (code & 0xFFFE) != 0xFFFE;  // the last two of every plane are not characters
}

// Widths in thousandths of the size, after the faces that systems use for sans-serif text, on the
// wide side.
double advance(uint32_t code) {
  if (code >= 0x0300 && code < 0x0370) return 0;  // combining marks
  if (code >= 0x1100 && (code < 0x1200 || (code >= 0x2E80 && code < 0xFB00) || code >= 0x1F000)) {
    return 1000;
  }
  if (code >= 0x80) return 620;
  const char c = static_cast<char>(code);
  if (std::string_view("il.,;:'|!`j ").find(c) != std::string_view::npos) return 320;
  if (std::string_view("ft()[]{}/\\-r\"*").find(c) != std::string_view::npos) return 400;
  if (std::string_view("mwMW@%").find(c) != std::string_view::npos) return 930;
  if (c >= 'A' && c <= 'Z') return 690;
  if (std::string_view("+<=>~#&_^").find(c) != std::string_view::npos) return 760;
  return 610;
}

}  // namespace

std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    const uint32_t code = length == 0 ? kReplacement : utf8_code_point(text, at, length);
    codes.push_back(may_be_shown(code) ? code : kReplacement);
    at += length == 0 ? 1 : length;
  }
  return codes;
}

std::string clean_text(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (const uint32_t code : code_points(text)) append_utf8(clean, code);
  return clean;
}

std::string coordinate(double value, std::string_view what) {
  if (!std::isfinite(value)) {
    fail_usage("A coordinate of ", what, " is ", value, "; coordinates must be finite numbers.");
  }
  char digits[400];
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 2);
  std::string text(digits, end.ptr);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

double text_width(std::string_view text, double size, bool bold) {
  double thousandths = 0;
  for (const uint32_t code : code_points(text)) thousandths += advance(code);
  return thousandths * size / 1000 * (bold ? 1.16 : 1);
}

std::string fit_text(std::string_view text, double size, double width, bool bold) {
  if (text_width(text, size, bold) <= width) return clean_text(text);
  const double factor = size / 1000 * (bold ? 1.16 : 1);
  double used = advance(kEllipsis) * factor;
  std::string fitted;
  for (const uint32_t code : code_points(text)) {
    used += advance(code) * factor;
    if (used > width) break;
    append_utf8(fitted, code);
  }
  fitted.erase(fitted.find_last_not_of(' ') + 1);
  append_utf8(fitted, kEllipsis);
  return fitted;
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 8);
  for (const char c : clean_text(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace tost
