// Lines of a log, written by a thread: a reader that stops reading must not stop the server. Free
// of torch.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tost/serve/workers.h"

namespace tost {

class LogLines {
 public:
  explicit LogLines(int descriptor);
  ~LogLines();  // writes the rest, if the reader takes it within a second

  // Any thread; returns at once. A line is dropped if too many wait, and the next one that is
  // written follows {"dropped": count}.
  void add(std::string line);
  int64_t dropped() const { return dropped_; }

 private:
  void write(std::string line);

  const int descriptor_;
  std::atomic<int64_t> dropped_{0};
  std::atomic<bool> ending_{false};
  int64_t told_ = 0;
  bool abandoned_ = false;  // nobody reads, and the server ends
  Workers thread_;
};

}  // namespace tost
