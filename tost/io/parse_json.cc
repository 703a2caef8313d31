#include "tost/io/parse_json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "tost/io/safe_text.h"

namespace tost {
namespace {

// Whether a text nests deeper than `most`. Exact for JSON only; other text is refused anyway.
bool nests_deeper(std::string_view text, size_t most) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      at += c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// The line and the column of a byte, counted from 1.
std::string place_of(std::string_view text, size_t byte) {
  if (text.find('\n') == text.npos) return cat("byte ", std::max<size_t>(byte, 1));
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const size_t newline = before.rfind('\n');
  return cat("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", column ",
             before.size() - (newline == before.npos ? 0 : newline + 1) + 1);
}

template <class Json>
Json parse_limited(std::string_view text, const std::string& where, const JsonLimits& limits) {
  const auto fail = [&](const std::string& what) -> Json { throw Error(limits.error, what); };
  if (nests_deeper(text, limits.nesting)) {
    return fail(cat(where, " is nested deeper than ", limits.nesting,
                    " levels; it is damaged or not what it should be."));
  }
  // Refuses NUL bytes, because the parser would stop at one.
  const size_t nul = text.find('\0');
  if (nul != text.npos) return fail(cat(where, " is not JSON at ", place_of(text, nul + 1), "."));
  std::vector<std::set<std::string>> keys;  // of the objects around
  const auto check_keys = [&](int, typename Json::parse_event_t event, Json& value) {
    using Event = typename Json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.template get<std::string>()).second) {
      fail(cat(where, " has the key ", shown(value.template get<std::string>()),
               " twice in one object; leave one out."));
    }
    return true;
  };
  try {
    if (!limits.unique_keys) return Json::parse(text);
    return Json::parse(text, check_keys);
  } catch (const typename Json::parse_error& error) {
    return fail(cat(where, " is not JSON at ", place_of(text, error.byte), "."));
  } catch (const typename Json::exception&) {
    return fail(cat(where, " is not JSON that can be read: it holds a number that is too large."));
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where,
                          const JsonLimits& limits) {
  return parse_limited<nlohmann::json>(text, where, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where,
                                          const JsonLimits& limits) {
  return parse_limited<nlohmann::ordered_json>(text, where, limits);
}

}  // namespace tost
