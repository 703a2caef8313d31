// How fast this machine reads memory.
#pragma once

#include <cstdint>

namespace tost {

// Milliseconds of one plain pass over a buffer of `bytes` bytes, 8 or more, on all threads of
// torch; the best of several, as noise only adds.
double memory_read_ms(int64_t bytes);

}  // namespace tost
