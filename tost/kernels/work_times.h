// Where the processor time of inference goes, by kind of work: measured by the code that does it,
// only while someone asks, at the cost of two looks at the clock for each piece. Free of torch.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tost::kernels {

enum class Work : uint8_t {
  kProduct,   // matrix products alone
  kFinish,    // what follows them: bias, activation, residual
  kNorm,      // layer norms
  kRounding,  // rows to int8
  kMixing,    // token statistics, attention
  kGather,    // pixels into the rows of convolutions
};
constexpr int kWorkKinds = 6;
// "products", "after products", ...
const char* work_name(Work kind);

// Of the whole process.
class WorkTimes {
 public:
  static void start();  // from zero
  // Seconds of each kind since start(), summed over threads. Whatever is under way counts not.
  static std::array<double, kWorkKinds> stop();

  static bool on() { return on_.load(std::memory_order_relaxed); }

 private:
  friend class WorkTimer;
  static std::atomic<bool> on_;
  static std::array<std::atomic<int64_t>, kWorkKinds> nanoseconds_;
};

// Counts the time of its scope; scopes do not nest.
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
