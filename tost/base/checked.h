// Arithmetic on untrusted sizes. The functions throw a data Error on overflow.
#pragma once

#include <cstdint>
#include <string_view>

#include "tost/base/error.h"

namespace tost {

// Returns a * b for a, b >= 0; `what` names the quantity in the message.
inline int64_t checked_mul(int64_t a, int64_t b, std::string_view what) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) {
    fail_data(what, ": the size ", a, " x ", b, " is impossible.");
  }
  return product;
}

// Returns a + b for a, b >= 0.
inline int64_t checked_add(int64_t a, int64_t b, std::string_view what) {
  int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) {
    fail_data(what, ": the size ", a, " + ", b, " is impossible.");
  }
  return sum;
}

// Returns a / b rounded up, for small counts, without a check for overflow.
constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// To whole cache lines.
constexpr int64_t aligned(int64_t bytes) {
  return divide_up(bytes, 64) * 64;
}

}  // namespace tost
