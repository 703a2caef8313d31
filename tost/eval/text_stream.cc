#include "tost/eval/text_stream.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tost {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What begins at text[0]: a whole character of `length` bytes, the beginning of one (length 0), or
// an invalid byte (length -1). Overlong forms, surrogates and values above U+10FFFF are invalid.
int character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return -1;
  for (int i = 1; i < length; ++i) {
    if (size_t(i) == text.size()) return 0;
    uint8_t low = 0x80, high = 0xBF;
    if (i == 1 && first == 0xE0) low = 0xA0;
    if (i == 1 && first == 0xED) high = 0x9F;
    if (i == 1 && first == 0xF0) low = 0x90;
    if (i == 1 && first == 0xF4) high = 0x8F;
    if (byte(size_t(i)) < low || byte(size_t(i)) > high) return -1;
  }
  return length;
}

}  // namespace

size_t whole_characters(std::string_view text, bool final, std::string& out) {
  out.clear();
  size_t done = 0;
  while (done < text.size()) {
    const int length = character_length(text.substr(done));
    if (length == 0 && !final) break;
    if (length > 0) {
      out.append(text.substr(done, size_t(length)));
      done += size_t(length);
    } else {
      out.append(kReplacement);
      ++done;
    }
  }
  return done;
}

TextStream::TextStream(std::vector<std::string> stop_strings) : stop_(std::move(stop_strings)) {
  stop_.erase(std::remove(stop_.begin(), stop_.end(), std::string()), stop_.end());
}

std::string TextStream::take(size_t count) {
  std::string text;
  held_.erase(0, whole_characters(std::string_view(held_).substr(0, count), stopped_, text));
  return text;
}

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return {};
  held_.append(bytes);
  size_t first = std::string::npos;
  for (const auto& stop : stop_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string text = take(first);
    held_.clear();
    return text;
  }
  // The longest end that could still become a stop string.
  size_t waiting = 0;
  for (const auto& stop : stop_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > waiting; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) waiting = n;
    }
  }
  return take(held_.size() - waiting);
}

std::string TextStream::finish() {
  std::string text;
  whole_characters(held_, /*final=*/true, text);
  held_.clear();
  return text;
}

}  // namespace tost
