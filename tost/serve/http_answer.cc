#include "tost/serve/http_answer.h"

#include <cstdio>

#include "tost/base/error.h"

namespace tost {
namespace {

constexpr size_t kMaxUnread = 4 << 20;  // limit of bytes that wait for a client to read

constexpr std::string_view kReasons =
    "200 OK;400 Bad Request;401 Unauthorized;403 Forbidden;404 Not Found;405 Method Not Allowed;"
    "409 Conflict;413 Payload Too Large;415 Unsupported Media Type;429 Too Many Requests;"
    "431 Request Header Fields Too Large;500 Internal Server Error;501 Not Implemented;"
    "503 Service Unavailable;";

// The status with its words.
std::string status_line(int status) {
  const auto at = kReasons.find(cat(status, " "));
  if (at == std::string_view::npos) return cat(status, " Error");
  return std::string(kReasons.substr(at, kReasons.find(';', at) - at));
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
      cat("HTTP/1.1 ", status_line(r.status), "\r\nContent-Type: ", r.type,
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
