// Parses untrusted JSON, with limits. Free of torch.
#pragma once

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "tost/base/error.h"

namespace tost {

struct JsonLimits {
  size_t nesting = 64;       // levels: copying and writing a value recurse as deep as it is nested
  bool unique_keys = false;  // an object that has a key twice is refused; else the last one counts
  ErrorKind error = ErrorKind::kData;
};

// Throws an Error of the kind `limits.error`: "WHERE is not JSON at line 2, column 7.", "WHERE is
// nested deeper than 64 levels; …", "WHERE has the key 'x' twice in one object; …". A NUL byte is
// not JSON. Memory is at most a constant times the size of the text.
nlohmann::json parse_json(std::string_view text, const std::string& where,
                          const JsonLimits& limits = {});

// Parses JSON as parse_json() does, with keys in the order of the text.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where,
                                          const JsonLimits& limits = {});

// Writes JSON on one line or indented. Bytes that are not UTF-8 become U+FFFD, where nlohmann's
// dump() throws. The function must not be used for values that must be read again unchanged.
template <typename Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Writes JSON that must be read again unchanged; returns nothing if a string is not UTF-8.
template <typename Json>
std::optional<std::string> exact_json_text(const Json& value, int indent = -1) {
  try {
    return value.dump(indent);
  } catch (const typename Json::type_error&) {
    return std::nullopt;
  }
}

// The number as JSON, or null if it is not finite.
inline nlohmann::json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

template <typename T>
nlohmann::json member_json(const T& value) {
  return nlohmann::json(value);
}
template <typename T>
nlohmann::json member_json(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// TOST_MEMBERS(row, a, b) is {"a": row.a, "b": row.b}; an optional without a value is null.
#define TOST_MEMBER(name) {#name, member_json(tost_object.name)},
#define TOST_MEMBERS(object, ...)                                                               \
  [](const auto& tost_object) {                                                                 \
    return nlohmann::json{NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(TOST_MEMBER, __VA_ARGS__))}; \
  }(object)

}  // namespace tost
