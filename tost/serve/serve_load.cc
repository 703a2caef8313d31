#include "tost/serve/serve_load.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/base/thread.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostRequests = 20'000;
constexpr time_t kSilence = 360;  // seconds: longer than a server works on a request by default

class Socket {
 public:
  explicit Socket(const ServeLoad& load) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(load.port));
    if (::inet_pton(AF_INET, load.host.c_str(), &to.sin_addr) != 1) {
      if (fd_ >= 0) ::close(fd_);
      fail_usage("The address '", load.host, "' is not numeric, as 127.0.0.1 is.");
    }
    const timeval silence{.tv_sec = kSilence, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
      const auto reason = system_reason(errno);
      if (fd_ >= 0) ::close(fd_);
      fail_data("Cannot connect to ", load.host, " port ", load.port, ": ", reason,
                "; start tost serve there.");
    }
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void send(const std::string& text) const {
    for (size_t at = 0; at < text.size();) {
      const auto count = ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (count <= 0) return;
      at += size_t(count);
    }
  }
  // The next line, or what comes after the last one; false at the end.
  bool line(std::string& to) {
    for (;;) {
      const size_t end = rest_.find('\n');
      if (end != std::string::npos) {
        to = rest_.substr(0, end);
        rest_.erase(0, end + 1);
        return true;
      }
      char part[4096];
      const auto count = ::recv(fd_, part, sizeof part, 0);
      if (count <= 0) {
        to = std::exchange(rest_, {});
        return !to.empty();
      }
      rest_.append(part, size_t(count));
    }
  }

 private:
  const int fd_;
  std::string rest_;
};

// The n-th request of a load, a function of its seed.
struct Planned {
  double at = 0;  // seconds after the first
  std::string text;
};

std::vector<Planned> plan(const ServeLoad& load) {
  std::vector<Planned> all;
  double at = 0;
  for (int64_t i = 0; i < load.requests; ++i) {
    Random random(load.seed, uint64_t(i));
    std::string prompt(size_t(1 + random.below(2 * load.prompt_bytes)), ' ');
    for (char& c : prompt) c = random.below(6) == 0 ? ' ' : char('a' + random.below(26));
    nlohmann::json body{{"prompt", prompt},   {"max_tokens", 1 + random.below(2 * load.tokens)},
                        {"stream", true},     {"logprobs", 0},
                        {"ignore_eos", true}, {"seed", i}};
    if (!load.model.empty()) body["model"] = load.model;
    const auto text = json_text(body);
    const auto key =
        load.key.empty() ? std::string() : cat("Authorization: Bearer ", load.key, "\r\n");
    // HTTP/1.0, so that the stream comes without chunks.
    all.push_back({at, cat("POST /v1/completions HTTP/1.0\r\nHost: localhost\r\n", key,
                           "Content-Length: ", text.size(), "\r\n\r\n", text)});
    at -= std::log(1 - random.uniform()) / load.rate;
  }
  return all;
}

struct Answered {
  int status = 0;
  bool whole = false;
  std::string error;           // as the server put it, a JSON object
  std::vector<double> tokens;  // seconds after the request
};

Answered ask(const ServeLoad& load, const std::string& text) {
  Answered answered;
  const auto begin = Clock::now();
  Socket socket(load);
  socket.send(text);
  std::string line;
  if (socket.line(line) && line.size() > 12) answered.status = std::atoi(line.c_str() + 9);
  while (socket.line(line)) {
    if (line == "data: [DONE]") {
      answered.whole = answered.error.empty();
    } else if (starts_with(line, "{\"error\"") || starts_with(line, "data: {\"error\"")) {
      answered.error = line.substr(line.find('{'));
    } else if (starts_with(line, "data: {")) {
      answered.tokens.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
  if (!answered.tokens.empty()) answered.tokens.pop_back();  // the event of the end
  return answered;
}

std::string reason_of(const Answered& answered) {
  if (answered.error.empty()) {
    return answered.status == 200
               ? "The server ended the connection in the middle of a text."
               : cat("The server gave no answer (status ", answered.status, ").");
  }
  try {
    const auto error = parse_json(answered.error, "The server's answer").at("error");
    return cat("The server says: ", escaped(error.at("message").get<std::string>()));
  } catch (const std::exception&) {
    return cat("The server's answer is ", shown(answered.error), ".");
  }
}

void add_failure(ServeLoadResult& result, const std::string& reason) {
  if (result.failed++ == 0) result.failure = reason;
}

void add(ServeLoadResult& result, const Answered& answered) {
  if (answered.status == 429) {
    ++result.refused;
    return;
  }
  if (answered.status != 200 || !answered.whole || answered.tokens.empty()) {
    return add_failure(result, reason_of(answered));
  }
  result.tokens += int64_t(answered.tokens.size());
  result.first.push_back(answered.tokens[0]);
  for (size_t i = 1; i < answered.tokens.size(); ++i) {
    result.between.push_back(answered.tokens[i] - answered.tokens[i - 1]);
  }
}

}  // namespace

double percentile(const std::vector<double>& values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = int64_t(std::ceil(p * double(values.size()))) - 1;
  return values[size_t(std::clamp<int64_t>(rank, 0, int64_t(values.size()) - 1))];
}

ServeLoadResult run_serve_load(const ServeLoad& load) {
  if (load.requests < 1 || load.requests > kMostRequests) {
    fail_usage("requests is ", load.requests, "; it must be from 1 to ", kMostRequests, ".");
  }
  if (!(load.rate > 0) || load.prompt_bytes < 1 || load.tokens < 1 || load.port < 1 ||
      load.port > 65'535) {
    fail_usage("rate, prompt-bytes, tokens and port must be above 0, and port at most 65535.");
  }
  { const Socket probe(load); }
  ServeLoadResult result;
  std::mutex mutex;
  std::vector<std::thread> clients;
  const auto begin = Clock::now();
  for (const auto& planned : plan(load)) {
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(planned.at)));
    clients.push_back(start_thread([&, text = planned.text] {
      try {
        const auto answered = ask(load, text);
        const std::lock_guard lock(mutex);
        add(result, answered);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        add_failure(result, error.what());
      }
    }));
  }
  for (auto& client : clients) client.join();
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (result.failed == load.requests) {
    fail_data("None of the ", load.requests, " requests was answered. ", result.failure);
  }
  std::sort(result.first.begin(), result.first.end());
  std::sort(result.between.begin(), result.between.end());
  return result;
}

}  // namespace tost
