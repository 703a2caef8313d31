#include "tost/cli/terminal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tost/base/posix.h"

namespace tost {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kPlainEvery = std::chrono::seconds(15);

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && !(term != nullptr && std::string_view(term) == "dumb");
}

// The width of the terminal on stderr in columns; 80 if unknown.
int64_t terminal_width() {
  struct winsize size {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string bar(int64_t done, int64_t total, int64_t width) {
  const int64_t filled = total > 0 ? std::clamp<int64_t>(done * width / total, 0, width) : 0;
  std::string out;
  for (int64_t i = 0; i < width; ++i) out += i < filled ? "━" : "╌";
  return out;
}

}  // namespace

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(stderr_is_terminal()) {}

ProgressLine::~ProgressLine() {
  finish();
}

void ProgressLine::update(int64_t done, int64_t total, const std::string& text) {
  if (quiet_) return;
  const auto now = Clock::now();
  const bool last = done >= total;
  if (terminal_) {
    if (!last && drawn_ && now - last_ < kRedraw) return;
    last_ = now;
    draw(done, total, text);
    return;
  }
  if (!last && last_plain_ && now - *last_plain_ < kPlainEvery) return;
  last_plain_ = now;
  put(std::to_string(done) + "/" + std::to_string(total) + "  " + text + "\n");
}

void ProgressLine::draw(int64_t done, int64_t total, const std::string& text) {
  const int64_t width = terminal_width();
  const int64_t bar_width = width >= 100 ? 20 : width >= 60 ? 10 : 0;
  const int64_t text_width = std::max<int64_t>(0, width - bar_width - 2);
  std::string line = "\r";
  if (bar_width > 0) line += bar(done, total, bar_width) + " ";
  put(line + text.substr(0, static_cast<size_t>(text_width)) + "\x1b[K");
  drawn_ = true;
}

void ProgressLine::erase() {
  if (drawn_) put("\r\x1b[K");
  drawn_ = false;
}

void ProgressLine::print(const std::string& line) {
  erase();
  put(line + "\n");
}

void ProgressLine::finish() {
  if (drawn_) put("\n");
  drawn_ = false;
}

}  // namespace tost
