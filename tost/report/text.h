// UTF-8 as it may be shown: in SVG, HTML and pictures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tost {

// Bytes that are not UTF-8, control characters (but for tabs and line feeds) and what XML forbids
// become U+FFFD.
std::string clean_text(std::string_view text);

// The code points of clean_text(text).
std::vector<uint32_t> code_points(std::string_view text);

// A coordinate or size for SVG and CSS: at most two decimals, whatever the locale. Throws a usage
// Error, naming `what`, for numbers that are not finite.
std::string coordinate(double value, std::string_view what = "a drawing");

}  // namespace tost
