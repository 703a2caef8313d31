// Text helpers for messages and tables.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tost {

// Removes the sign of a NaN, which would print as "-nan"; returns other values unchanged.
template <typename T>
decltype(auto) plain_nan(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  } else {
    return (value);
  }
}

// Formats as printf() does, without the sign of a NaN; at most 255 characters.
template <typename... Args>
std::string format_text(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, plain_nan(args)...);
  return text;
}

// The candidate with the smallest edit distance to `name`, or "" if none is within a third of the
// name's length (at least 2 edits). The first of equally near candidates is returned.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// Returns " Did you mean 'x'?" for the end of an error message, or "" if no candidate is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

std::string human_bytes(int64_t bytes);      // "1.5 GiB"
std::string human_duration(double seconds);  // "45s", "3m20s", "2h05m"
std::string human_number(int64_t n);         // "5,769,328"
std::string join(const std::vector<std::string>& parts, std::string_view separator);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
std::string to_lower(std::string_view text);  // ASCII

// "an image", "a model".
std::string with_article(const std::string& noun);

}  // namespace tost
