// Makes text from files safe to print: a name must not move a terminal's cursor, reverse a line or
// fill the screen.
#pragma once

#include <cstddef>
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

}  // namespace tost
