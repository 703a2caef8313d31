// UTF-8 as The Unicode Standard (table 3-7) defines it: no overlong forms, no surrogates unless
// requested, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tost {

// Whether surrogates are allowed, which Python's pickles use in file names that are not UTF-8.
enum class Surrogates { kRefused, kTaken };

// The number of bytes, 1 to 4, of the well-formed character at text[at]; 0 if there is none.
size_t utf8_length(std::string_view text, size_t at, Surrogates surrogates = Surrogates::kRefused);

// The code point of the well-formed character text[at, at + length).
uint32_t utf8_code_point(std::string_view text, size_t at, size_t length);

// Appends a code point, which must be at most U+10FFFF and no surrogate.
void append_utf8(std::string& text, uint32_t code_point);

// The offset of the first byte that is in no well-formed character; text.size() if there is none.
size_t first_invalid_utf8(std::string_view text);

// The lines of a text, empty ones too, without their ends "\n" or "\r\n".
std::vector<std::string_view> lines_of(std::string_view text);

}  // namespace tost
