// The log of a server.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "tost/base/error.h"
#include "tost/serve/metrics.h"

namespace tost {
namespace {

constexpr int64_t kMaxLines = 4096;
constexpr int kPollMs = 100, kLastPolls = 10;

}  // namespace

LogLines::LogLines(int descriptor) : descriptor_(descriptor), thread_(1, kMaxLines) {}

LogLines::~LogLines() {
  ending_ = true;
  thread_.stop();
}

void LogLines::add(std::string line) {
  if (!thread_.run([this, line = std::move(line)] { write(line); })) ++dropped_;
}

// Writes at most PIPE_BUF bytes at once, which a ready pipe takes without blocking.
void LogLines::write(std::string line) {
  line += '\n';
  if (const int64_t all = dropped_; all > reported_) {
    line = cat("{\"dropped\": ", all - std::exchange(reported_, all), "}\n", line);
  }
  int polls = 0;
  for (size_t at = 0; at < line.size() && !abandoned_;) {
    pollfd ready{descriptor_, POLLOUT, 0};
    if (::poll(&ready, 1, kPollMs) <= 0) {
      abandoned_ = ending_ && ++polls >= kLastPolls;
      continue;
    }
    const auto count =
        ::write(descriptor_, line.data() + at, std::min<size_t>(line.size() - at, PIPE_BUF));
    if (count < 0 && errno != EAGAIN && errno != EINTR) return;  // no reader is left
    at += size_t(std::max<ssize_t>(count, 0));
  }
}

}  // namespace tost
