// Text out of files, made safe to show: a name must not be able to move a terminal's cursor, turn
// the direction of a line or fill the screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tost {

// Well-formed UTF-8. Surrogates are taken too, since Python's pickles hold them for file names.
bool is_utf8(std::string_view text);

// A data Error "WHAT 'text' is not UTF-8; …" where JSON could not hold the text.
void require_utf8(std::string_view text, std::string_view what);

// `text` with control characters, marks of direction, line and paragraph separators, surrogates,
// backslashes and bytes that are not UTF-8 as \n, \x1b, \u202e, …; cut after about `most` bytes,
// which "…" then shows.
std::string escaped(std::string_view text, size_t most = 200);

// escaped() between apostrophes. (Not `quoted`: std::quoted would be found first, and escapes
// nothing.)
std::string shown(std::string_view text, size_t most = 200);

}  // namespace tost
