// A line of progress that redraws itself on a terminal, and occasional plain lines in a pipe or
// file. Everything goes to stderr, so that stdout has only results.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tost {

class ProgressLine {
 public:
  // `quiet` shows nothing but messages.
  explicit ProgressLine(bool quiet);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // On a terminal: a bar and `text`, at most ten times a second. In a pipe: a line at once, every
  // 15 seconds and at the end. Long text is cut to the terminal's width.
  void update(int64_t done, int64_t total, const std::string& text);
  // A line that stays, above the bar.
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
