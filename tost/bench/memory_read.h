// How fast this machine reads memory.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace tost {

// Milliseconds of one plain pass over a buffer of `bytes` bytes, 8 or more, on all threads of
// torch; the best of several, as noise only adds.
double memory_read_ms(int64_t bytes);

// The same on a GPU: half of what it takes there to copy as many bytes, from memory that its caches
// do not hold.
double memory_read_ms(int64_t bytes, c10::Device device);

}  // namespace tost
