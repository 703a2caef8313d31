// Memory of this process and of the machine, as Linux counts it.
#pragma once

#include <cstdint>

namespace tost {

int64_t resident_bytes();       // now; 0 where it cannot be read
int64_t peak_resident_bytes();  // highest so far; 0 where it cannot be read

// What a process may still take without swapping: MemAvailable of /proc/meminfo, but no more than
// the limit of the control group. 0 where it cannot be read.
int64_t available_bytes();

}  // namespace tost
