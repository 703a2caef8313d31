// Measures the processor time of inference by kind of work. Code measures its work while a
// measurement is active. Each measured piece takes two reads of the clock. Free of torch.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tost::kernels {

enum class Work : uint8_t {
  kProduct,   // only matrix products
  kFinish,    // what follows them: bias, activation, residual
  kNorm,      // layer norms
  kRounding,  // rows to int8
  kMixing,    // token statistics, attention
  kGather,    // pixels into the rows of convolutions
};
constexpr int kWorkKinds = 6;
// "products", "after products", ...
inline const char* work_name(Work kind) {
  constexpr const char* kNames[kWorkKinds] = {"products", "after products", "norms",
                                              "rounding", "mixing",         "gathering"};
  return kNames[static_cast<size_t>(kind)];
}

// Of the whole process.
class WorkTimes {
 public:
  static void start() {  // from zero
    for (auto& count : nanoseconds_) count = 0;
    on_ = true;
  }
  // The seconds of each kind of work that began since start(), summed over threads.
  static std::array<double, kWorkKinds> stop() {
    on_ = false;
    std::array<double, kWorkKinds> seconds{};
    for (size_t i = 0; i < seconds.size(); ++i) seconds[i] = 1e-9 * double(nanoseconds_[i]);
    return seconds;
  }

  static bool on() { return on_.load(std::memory_order_relaxed); }

 private:
  friend class WorkTimer;
  inline static std::atomic<bool> on_ = false;
  inline static std::array<std::atomic<int64_t>, kWorkKinds> nanoseconds_{};
};

// Measures the time of a scope; scopes must not nest.
class WorkTimer {
 public:
  explicit WorkTimer(Work kind) : kind_(kind), counts_(WorkTimes::on()) {
    if (counts_) begin_ = Clock::now();
  }
  ~WorkTimer() {
    if (!counts_) return;
    const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_);
    WorkTimes::nanoseconds_[static_cast<size_t>(kind_)].fetch_add(spent.count(),
                                                                  std::memory_order_relaxed);
  }
  WorkTimer(const WorkTimer&) = delete;
  WorkTimer& operator=(const WorkTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  const Work kind_;
  const bool counts_;
  Clock::time_point begin_;
};

}  // namespace tost::kernels
