// A line of progress on stderr that redraws itself on a terminal; occasional plain lines in a pipe
// or file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tost {

class ProgressLine {
 public:
  // `quiet` shows no progress, only the lines of print().
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows a bar and `text`, cut to the terminal's width, at most ten times a second; in a pipe a
  // line at first, every 15 seconds and at the end.
  void update(int64_t done, int64_t total, const std::string& text);
  // Prints a line that stays above the bar.
  void print(const std::string& line);
  // Leaves the last state visible and ends the line.
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

// Columns of the terminal on stderr; 80 if unknown.
int64_t terminal_width();

}  // namespace tost
