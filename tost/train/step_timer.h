// Speed and time left of a running loop.
#pragma once

#include <chrono>
#include <cstdint>

namespace tost {

// Rates are averaged with a half-life of about 20 steps, so that they settle after an evaluation or
// a stall.
class StepTimer {
 public:
  // Leaves out the time since the last step (start, evaluation, checkpoint).
  void restart(double wait_seconds) {
    last_ = Clock::now();
    last_wait_ = wait_seconds;
  }
  void step(int64_t samples, double wait_seconds) {
    constexpr double kKeep = 0.966;  // 0.966^20 = 0.5
    const auto now = Clock::now();
    seconds_ = kKeep * seconds_ + std::chrono::duration<double>(now - last_).count();
    samples_ = kKeep * samples_ + double(samples);
    steps_ = kKeep * steps_ + 1;
    wait_ = kKeep * wait_ + (wait_seconds - last_wait_);
    last_ = now;
    last_wait_ = wait_seconds;
  }

  double samples_per_s() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }
  double seconds_per_step() const { return steps_ > 0 ? seconds_ / steps_ : 0; }
  double wait_share() const { return seconds_ > 0 ? wait_ / seconds_ : 0; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  double last_wait_ = 0;
  double seconds_ = 0, samples_ = 0, steps_ = 0, wait_ = 0;  // decayed sums
};

}  // namespace tost
