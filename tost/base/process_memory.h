// Memory of this process and of the machine, as Linux counts it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tost {

int64_t resident_bytes();       // now; 0 where it cannot be read
int64_t peak_resident_bytes();  // highest so far; 0 where it cannot be read

// Highest since the last restart_high_water(), or ever; 0 where it cannot be read.
int64_t high_water_bytes();
// Resets the high water to the resident memory of now. False where Linux does not allow it.
bool restart_high_water();

// What this process may still take without swapping: MemAvailable of meminfo in `proc`, but not
// more than the rest in its control group (version 2, mounted at `groups`) and in every group
// above: their limit less their use, without pages of files that could be dropped. 0 where
// MemAvailable cannot be read, at least 1 else.
int64_t available_bytes(const std::filesystem::path& proc = "/proc",
                        const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace tost
