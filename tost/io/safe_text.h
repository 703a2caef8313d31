// Makes text from files safe to show: a name must not move a terminal's cursor, reverse the
// direction of a line or fill the screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tost {

// Whether a text is UTF-8. Allows surrogates, which Python's pickles have in file names.
bool is_utf8(std::string_view text);

// Throws a data Error "WHAT 'text' is not UTF-8; …" if JSON cannot hold the text.
void require_utf8(std::string_view text, std::string_view what);

// Writes control characters, marks of direction, line and paragraph separators, surrogates,
// backslashes and bytes that are not UTF-8 as \n, \x1b, \u202e, …. Cuts the text after about `most`
// bytes, and then ends it with "…".
std::string escaped(std::string_view text, size_t most = 200);

// Returns escaped() between apostrophes. (It is not called `quoted`, because std::quoted would be
// found first.)
std::string shown(std::string_view text, size_t most = 200);

}  // namespace tost
