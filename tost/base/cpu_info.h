// Facts about this processor, from Linux.
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

}  // namespace tost
