#include "tost/base/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

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

}  // namespace tost
