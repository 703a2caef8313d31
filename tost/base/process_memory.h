// Memory of this process and of the machine, as Linux counts it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tost {

int64_t resident_bytes();       // now; 0 where it cannot be read
int64_t peak_resident_bytes();  // highest so far; 0 where it cannot be read

// Highest resident memory since the last restart_high_water(), or since the start; 0 if unknown.
int64_t high_water_bytes();
// Resets the highest value to the present resident memory. Returns false if Linux refuses.
bool restart_high_water();

// The memory that this process may still take without swapping. The result is MemAvailable of
// meminfo in `proc`, but at most the memory that the process's control group (version 2, mounted at
// `groups`) and its parents allow. A group allows its limit minus its use; file pages that can be
// dropped are not counted as used. Returns 0 if MemAvailable cannot be read, else at least 1.
int64_t available_bytes(const std::filesystem::path& proc = "/proc",
                        const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace tost
