// Facts about this processor, and the memory of this process and of the machine, from Linux.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tost {

// The processor's name, or "unknown" if it cannot be read.
std::string cpu_name(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

// The processor's features that select fast paths, in a fixed order: avx2, fma, avx512f,
// avx512_bf16, avx512_vnni, avx_vnni, amx_tile, amx_bf16, amx_int8.
std::vector<std::string> cpu_features(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

// The number of cores that this process may use.
int64_t core_count();

// Throws a usage Error for a negative number of threads, or more than sixteen threads per core.
void check_threads(int64_t threads);

std::filesystem::path program_file();  // that is running

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
