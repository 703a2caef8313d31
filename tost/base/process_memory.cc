#include "tost/base/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace tost {

int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream file("/proc/self/statm");
  if (!(file >> size >> resident)) return 0;
  return resident * int64_t(sysconf(_SC_PAGESIZE));
}

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t(usage.ru_maxrss) * 1024 : 0;
}

int64_t available_bytes() {
  int64_t available = 0;
  std::ifstream machine("/proc/meminfo");
  for (std::string line; std::getline(machine, line);) {
    constexpr std::string_view kKey = "MemAvailable:";
    if (line.compare(0, kKey.size(), kKey) != 0) continue;
    available = std::strtoll(line.c_str() + kKey.size(), nullptr, 10) * 1024;  // in kB
  }
  int64_t limit = 0;
  std::ifstream group("/sys/fs/cgroup/memory.max");  // "max" where there is none
  return group >> limit && limit > 0 ? std::min(available, limit) : available;
}

}  // namespace tost
