// Counts and times of a server, in the text form of Prometheus. Free of torch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace tost {

// Cumulative counts up to bounds from a millisecond to a minute.
class Histogram {
 public:
  void add(double seconds);
  std::string text(const std::string& name, const std::string& help) const;

 private:
  static constexpr std::array kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                      0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
  std::array<std::atomic<int64_t>, kBounds.size() + 1> counts_{};
  std::atomic<int64_t> nanoseconds_{0};
};

struct Metrics {
  std::atomic<int64_t> prompt_tokens{0}, cached_tokens{0}, new_tokens{0}, steps{0};
  std::atomic<int64_t> prefix_hits{0}, prefix_misses{0}, abandoned{0}, refused{0};
  Histogram first_token, between_tokens;

  // Of a path as routes name it, never as it came: the number of series is bounded.
  void add_request(const std::string& route, int status, double seconds);

  // Values that are asked for rather than counted.
  using Gauges = std::map<std::string, std::pair<std::string, double>>;  // name: help, value
  std::string text(const Gauges& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  Histogram request_times_;
};

}  // namespace tost
