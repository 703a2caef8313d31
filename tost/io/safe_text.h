// Makes text from files safe to print: a name must not move a terminal's cursor, reverse a line or
// fill the screen. Makes text of bytes by base64, too.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tost {

// Whether a text is UTF-8. Surrogates are allowed, because Python's pickles contain them.
bool is_utf8(std::string_view text);

// Throws a data Error "WHAT 'text' is not UTF-8; …" if JSON cannot hold the text.
void require_utf8(std::string_view text, std::string_view what);

// Writes control characters, marks of direction, line and paragraph separators, surrogates,
// backslashes and bytes that are not UTF-8 as \n, \x1b, \u202e, …. Truncates the text after about
// `most` bytes, and appends "…".
std::string escaped(std::string_view text, size_t most = 200);

// Returns escaped() between apostrophes. The function is not called `quoted`, because a call would
// find std::quoted.
std::string shown(std::string_view text, size_t most = 200);

// Base64 of RFC 4648. The decoder requires padding, and unused bits must be zero.
std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);  // nothing unless well-formed

}  // namespace tost
