#include "tost/serve/metrics.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/posix.h"

namespace tost {
namespace {

void add_series(std::string& text, const std::string& name, const char* type,
                const std::string& help, const std::string& values) {
  text += cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n", values);
}

constexpr int64_t kMaxLines = 4096;
constexpr int kPollMs = 100, kLastPolls = 10;

}  // namespace

void Histogram::add(double seconds) {
  size_t i = 0;
  while (i < kBounds.size() && seconds > kBounds[i]) ++i;
  ++counts_[i];
  nanoseconds_ += int64_t(seconds * 1e9);
}

std::string Histogram::text(const std::string& name, const std::string& help) const {
  std::string values;
  int64_t sum = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    sum += counts_[i];
    const auto bound = i < kBounds.size() ? cat(kBounds[i]) : std::string("+Inf");
    values += cat(name, "_bucket{le=\"", bound, "\"} ", sum, "\n");
  }
  values += cat(name, "_sum ", double(nanoseconds_) * 1e-9, "\n", name, "_count ", sum, "\n");
  std::string text;
  add_series(text, name, "histogram", help, values);
  return text;
}

void Metrics::add_request(const std::string& route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
  request_times_.add(seconds);
}

std::string Metrics::text(const Gauges& gauges) const {
  std::string text, requests;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, count] : requests_) {
      requests += cat("tost_requests_total{route=\"", key.first, "\",status=\"", key.second, "\"} ",
                      count, "\n");
    }
    text += request_times_.text("tost_request_seconds", "Whole times of requests.");
  }
  add_series(text, "tost_requests_total", "counter", "Requests by route and status.", requests);
  const auto counter = [&text](const char* name, const char* help, int64_t value) {
    add_series(text, name, "counter", help, cat(name, " ", value, "\n"));
  };
  counter("tost_prompt_tokens_total", "Tokens of prompts.", prompt_tokens);
  counter("tost_cached_tokens_total", "Of them, tokens whose state was known.", cached_tokens);
  counter("tost_new_tokens_total", "Tokens written.", new_tokens);
  counter("tost_steps_total", "Passes over the weights that wrote tokens.", steps);
  counter("tost_prefix_hits_total", "Prompts whose beginning was known.", prefix_hits);
  counter("tost_prefix_misses_total", "Prompts whose beginning was not.", prefix_misses);
  counter("tost_abandoned_total", "Texts whose client left.", abandoned);
  counter("tost_refused_total", "Requests refused because too many wait.", refused);
  for (const auto& [name, gauge] : gauges) {
    add_series(text, name, "gauge", gauge.first, cat(name, " ", gauge.second, "\n"));
  }
  text += first_token.text("tost_first_token_seconds", "From a request to its first token.");
  text += between_tokens.text("tost_between_tokens_seconds", "Between tokens of a text.");
  return text;
}

LogLines::LogLines(int descriptor) : descriptor_(descriptor), thread_(1, kMaxLines) {}

LogLines::~LogLines() {
  ending_ = true;
  thread_.stop();
}

void LogLines::add(std::string line) {
  if (!thread_.run([this, line = std::move(line)] { write(line); })) ++dropped_;
}

// Writes at most PIPE_BUF bytes at once, which a pipe that is ready takes without waiting.
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
