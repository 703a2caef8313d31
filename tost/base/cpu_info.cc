#include "tost/base/cpu_info.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>

#include "tost/base/error.h"
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

}  // namespace tost
