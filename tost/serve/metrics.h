// Counts and times of a server, in the text form of Prometheus, and its log.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tost/serve/workers.h"

namespace tost {

// A histogram: cumulative counts up to bounds from a millisecond to a minute.
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

  // Counts a request under the pattern of its route, which bounds the number of series.
  void add_request(const std::string& route, int status, double seconds);

  // Values that are read when metrics are written.
  using Gauges = std::map<std::string, std::pair<std::string, double>>;  // name: help, value
  std::string text(const Gauges& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  Histogram request_times_;
};

// Writes a log on a separate thread, so that a reader that stops does not block the server.
class LogLines {
 public:
  explicit LogLines(int descriptor);
  ~LogLines();  // writes the rest, if the reader takes it within a second

  // Queues a line, from any thread. Drops the line if the queue is full; {"dropped": count} is then
  // written before the next line.
  void add(std::string line);
  int64_t dropped() const { return dropped_; }

 private:
  void write(std::string line);

  const int descriptor_;
  std::atomic<int64_t> dropped_{0};
  std::atomic<bool> ending_{false};
  int64_t reported_ = 0;
  bool abandoned_ = false;  // without a reader, and the server ends
  Workers thread_;
};

}  // namespace tost
