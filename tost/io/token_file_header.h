// The header of llm.c's token files.
#pragma once

#include <array>
#include <cstdint>

namespace tost {

using TokenFileHeader = std::array<int32_t, 256>;  // magic, version, number of tokens, zeros
inline constexpr size_t kTokenHeaderBytes = sizeof(TokenFileHeader);
inline constexpr int32_t kTokenMagic = 20240520;
inline constexpr int32_t kTokenVersion = 1;
inline constexpr int32_t kWideTokenMagic = 20240801;  // of its files of 32-bit tokens

}  // namespace tost
