// Memory of this process, as Linux counts it.
#pragma once

#include <cstdint>

namespace tost {

int64_t resident_bytes();       // now; 0 where it cannot be read
int64_t peak_resident_bytes();  // highest so far; 0 where it cannot be read

}  // namespace tost
