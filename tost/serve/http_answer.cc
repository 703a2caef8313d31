#include "tost/serve/http_answer.h"

#include <cstdio>

#include "tost/base/error.h"

namespace tost {
namespace {

constexpr size_t kMaxUnread = 4 << 20;  // limit of bytes that wait for a client to read

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

}  // namespace

void Answer::answer(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    if (outcome_.status != 0) return;
    const auto size = std::to_string(response.body.size());
    response.headers.emplace_back("Content-Length", size);
    start(response);
    if (request.method != "HEAD") waiting_ += response.body;
    ended_ = true;
  }
  wake_();
}

void Answer::begin(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (outcome_.status != 0) return;
  streaming_ = true;
  if (chunked_) {
    head.headers.emplace_back("Transfer-Encoding", "chunked");
  } else {
    keep_alive_ = false;
  }
  start(head);
}

void Answer::send(const std::string& part) {
  if (part.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!streaming_ || ended_ || disconnected_) return;
    if (waiting_.size() + part.size() > kMaxUnread) {
      disconnected_ = true;
    } else if (chunked_) {
      char size[24];
      std::snprintf(size, sizeof size, "%zx\r\n", part.size());
      waiting_.append(size).append(part).append("\r\n");
    } else {
      waiting_ += part;
    }
  }
  wake_();
}

void Answer::end() {
  {
    const std::lock_guard lock(mutex_);
    if (!streaming_ || ended_) return;
    if (chunked_) waiting_ += "0\r\n\r\n";
    ended_ = true;
  }
  wake_();
}

void Answer::abandon() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    disconnected_ = true;
  }
  wake_();
}

bool Answer::take(std::string& bytes) {
  const std::lock_guard lock(mutex_);
  bytes = std::exchange(waiting_, {});
  outcome_.bytes += int64_t(bytes.size());
  return ended_;
}

void Answer::start(const HttpResponse& r) {
  outcome_.status = r.status;
  waiting_ =
      cat("HTTP/1.1 ", r.status, " ", reason(r.status), "\r\nContent-Type: ", r.type,
          "\r\nX-Request-Id: ", request.id, "\r\nX-Content-Type-Options: nosniff\r\nConnection: ",
          keep_alive_ ? "keep-alive" : "close", "\r\n");
  for (const auto& [name, value] : r.headers) waiting_ += cat(name, ": ", value, "\r\n");
  if (!request.allow_origin.empty()) {
    waiting_ +=
        cat("Access-Control-Allow-Origin: ", request.allow_origin,
            "\r\nAccess-Control-Expose-Headers: X-Request-Id, Retry-After\r\nVary: Origin\r\n");
  }
  waiting_ += "\r\n";
}

void Answer::record(const std::string& model, int64_t prompt_tokens, int64_t new_tokens) {
  const std::lock_guard lock(mutex_);
  outcome_.model = model;
  outcome_.prompt_tokens += prompt_tokens;
  outcome_.new_tokens += new_tokens;
}

HttpOutcome Answer::outcome() const {
  const std::lock_guard lock(mutex_);
  HttpOutcome outcome = outcome_;
  if (outcome.status == 0) outcome.status = 499;
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  return outcome;
}

}  // namespace tost
