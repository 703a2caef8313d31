// Base64 of RFC 4648. The decoder requires padding, and unused bits must be zero.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tost {

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);  // nothing unless well-formed

}  // namespace tost
