// Shows progress on stderr: a line that is redrawn on a terminal, occasional plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "tost/io/text_export.h"

namespace tost {

class ProgressLine {
 public:
  // If `quiet` is set, only the lines of print() are shown.
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows a bar and `text`, cut to the terminal's width, at most ten times a second; in a pipe
  // prints a line every 15 seconds.
  void update(int64_t done, int64_t total, const std::string& text);
  // Prints a line that stays above the bar.
  void print(const std::string& line);
  // Ends the line of progress, whose last state stays visible.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(int64_t done, int64_t total, const std::string& text);
  void erase();

  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point last_;
  std::optional<Clock::time_point> last_plain_;  // none yet
};

// Shows the progress of an export, in a unit, and ends it by Ctrl-C.
ExportOptions export_options(ProgressLine& progress, const char* unit);

}  // namespace tost
