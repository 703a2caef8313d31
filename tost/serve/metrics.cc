#include "tost/serve/metrics.h"

#include "tost/base/error.h"

namespace tost {
namespace {

void add_series(std::string& text, const std::string& name, const char* type,
                const std::string& help, const std::string& values) {
  text += cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n", values);
}

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

}  // namespace tost
