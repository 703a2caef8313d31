#include "tost/base/machine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"

namespace tost {

std::string cpu_name(const std::filesystem::path& cpuinfo) {
  std::ifstream file(cpuinfo);
  for (std::string line; std::getline(file, line);) {
    if (starts_with(line, "model name"))
      return line.substr(std::min(line.size(), line.find(": ") + 2));
  }
  return "unknown";
}

std::vector<std::string> cpu_features(const std::filesystem::path& cpuinfo) {
  static const std::vector<std::string> kOfInterest = {"avx2",        "fma",         "avx512f",
                                                       "avx512_bf16", "avx512_vnni", "avx_vnni",
                                                       "amx_tile",    "amx_bf16",    "amx_int8"};
  std::ifstream file(cpuinfo);
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) {
    if (!starts_with(line, "flags")) continue;
    line += ' ';
    std::copy_if(
        kOfInterest.begin(), kOfInterest.end(), std::back_inserter(found),
        [&](const std::string& flag) { return line.find(" " + flag + " ") != std::string::npos; });
    break;
  }
  return found;
}

int64_t core_count() {
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

void check_threads(int64_t threads) {
  constexpr int64_t kMaxACore = 16;
  const int64_t cores = core_count();
  if (threads >= 0 && threads <= kMaxACore * cores) return;
  fail_usage("threads is ", threads, "; 0 (all cores) to ", kMaxACore * cores,
             " are possible where there ", cores == 1 ? "is 1 core" : cat("are ", cores, " cores"),
             ".");
}

#ifndef _WIN32
std::filesystem::path program_file() {
  return canonical_path("/proc/self/exe");
}

int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream file("/proc/self/statm");
  return file >> size >> resident ? resident * int64_t(sysconf(_SC_PAGESIZE)) : 0;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return std::max(int64_t(usage.ru_maxrss) * 1024, resident_bytes());  // Linux counts both roughly
}
#endif

namespace {

namespace fs = std::filesystem;

// The number after `key` in a file of lines "key number ..."; 0 if no line has this key.
int64_t entry(const fs::path& file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  }
  return 0;
}

// The path of the process's control group, relative to the mount point.
fs::path current_group(const fs::path& proc) {
  constexpr std::string_view kUnified = "0::/";
  std::ifstream lines(proc / "self" / "cgroup");
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, kUnified.size(), kUnified) != 0) continue;
    const std::string path = line.substr(kUnified.size());
    // A path with ".." names a control group that this container cannot see.
    return path.find("..") == std::string::npos ? fs::path(path) : fs::path();
  }
  return {};
}

// The number of bytes that one control group may still take, or `most` if the group has no limit.
int64_t left_in(const fs::path& group, int64_t most) {
  int64_t limit = 0, used = 0;
  std::ifstream max(group / "memory.max"), current(group / "memory.current");
  if (!(max >> limit) || limit <= 0) return most;  // "max"
  if (!(current >> used)) used = 0;
  const int64_t held = std::max<int64_t>(0, used - entry(group / "memory.stat", "inactive_file "));
  return std::clamp<int64_t>(limit - held, 0, most);
}

}  // namespace

int64_t available_bytes(const fs::path& proc, const fs::path& groups) {
  int64_t available = entry(proc / "meminfo", "MemAvailable:") * 1024;  // in kB
  if (available <= 0) return 0;
  fs::path group = groups;
  available = left_in(group, available);
  for (const auto& part : current_group(proc)) available = left_in(group /= part, available);
  return std::max<int64_t>(1, available);
}

int64_t high_water_bytes() {
  return entry("/proc/self/status", "VmHWM:") * 1024;  // in kB
}

bool restart_high_water() {
  std::ofstream file("/proc/self/clear_refs");
  return bool(file << "5" << std::flush);
}

}  // namespace tost
