// std::bit_cast for Debian 12's emscripten, whose C++ library lacks it.
#pragma once
#include <version>
#ifndef __cpp_lib_bit_cast
#include <bit>
namespace std {
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
}  // namespace std
#endif
