#include "tost/train/step_timer.h"

namespace tost {
namespace {
constexpr double kKeep = 0.966;  // 0.966^20 = 0.5
}

void StepTimer::restart(double wait_seconds) {
  last_ = Clock::now();
  last_wait_ = wait_seconds;
}

void StepTimer::step(int64_t samples, double wait_seconds) {
  const auto now = Clock::now();
  seconds_ = kKeep * seconds_ + std::chrono::duration<double>(now - last_).count();
  samples_ = kKeep * samples_ + double(samples);
  steps_ = kKeep * steps_ + 1;
  wait_ = kKeep * wait_ + (wait_seconds - last_wait_);
  last_ = now;
  last_wait_ = wait_seconds;
}

}  // namespace tost
