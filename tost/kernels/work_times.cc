#include "tost/kernels/work_times.h"

namespace tost::kernels {

std::atomic<bool> WorkTimes::on_ = false;
std::array<std::atomic<int64_t>, kWorkKinds> WorkTimes::nanoseconds_{};

const char* work_name(Work kind) {
  constexpr const char* kNames[kWorkKinds] = {"products", "after products", "norms",
                                              "rounding", "mixing",         "gathering"};
  return kNames[static_cast<size_t>(kind)];
}

void WorkTimes::start() {
  for (auto& count : nanoseconds_) count = 0;
  on_ = true;
}

std::array<double, kWorkKinds> WorkTimes::stop() {
  on_ = false;
  std::array<double, kWorkKinds> seconds{};
  for (size_t i = 0; i < seconds.size(); ++i) seconds[i] = 1e-9 * double(nanoseconds_[i]);
  return seconds;
}

}  // namespace tost::kernels
