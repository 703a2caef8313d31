#include "tost/serve/serve_load.h"

#include <arpa/inet.h>
#include <sys/socket.h>
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
#include "tost/base/thread.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostRequests = 20'000;
constexpr char kEvent[] = "data: {";

class Socket {
 public:
  explicit Socket(const ServeLoad& load) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(load.port));
    if (::inet_pton(AF_INET, load.host.c_str(), &to.sin_addr) != 1) {
      fail_usage("The address '", load.host, "' is not numeric, as 127.0.0.1 is.");
    }
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
      fail_data("Cannot connect to ", load.host, " port ", load.port, ": ", system_reason(errno),
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
  // The next line; false at the end.
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
      if (count <= 0) return false;
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
    if (line.compare(0, sizeof kEvent - 1, kEvent) != 0) continue;
    answered.tokens.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  if (!answered.tokens.empty()) answered.tokens.pop_back();  // the event of the end
  return answered;
}

void add(ServeLoadResult& result, const Answered& answered) {
  if (answered.status == 429) ++result.refused;
  if (answered.status != 200 || answered.tokens.empty()) {
    result.failed += answered.status != 429;
    return;
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
      Answered answered;
      try {
        answered = ask(load, text);
      } catch (const Error&) {
        // Counts as failed: the server takes no connection.
      }
      const std::lock_guard lock(mutex);
      add(result, answered);
    }));
  }
  for (auto& client : clients) client.join();
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::sort(result.first.begin(), result.first.end());
  std::sort(result.between.begin(), result.between.end());
  return result;
}

}  // namespace tost
