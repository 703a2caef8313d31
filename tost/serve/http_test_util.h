// A server that echoes, and a client that sends bytes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "tost/base/parallel.h"
#include "tost/serve/http.h"

namespace tost::testing {

// A client that sends exactly the bytes of the test.
class Client {
 public:
  explicit Client(int64_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(port));
    ::inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  Client(Client&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  ~Client() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void close_sending() { ::shutdown(fd_, SHUT_WR); }
  void send(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const auto n = ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += size_t(n);
    }
  }
  // The bytes received until `end` is in them, the server closes, or nothing arrives for a while.
  std::string read(const std::string& end = "", int wait_ms = 300'000) {
    std::string all;
    char part[4096];
    while (end.empty() || all.find(end) == std::string::npos) {
      pollfd p{fd_, POLLIN, 0};
      if (::poll(&p, 1, wait_ms) <= 0) return all + "(silence)";
      const auto n = ::recv(fd_, part, sizeof part, 0);
      if (n <= 0) break;
      all.append(part, size_t(n));
    }
    return all;
  }

 private:
  int fd_;
  bool connected_;
};

// Whether it becomes true, within a generous limit.
template <class Done>
bool comes(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Echoes bodies; "/stream" answers in parts until the client disconnects, "/never" gives no answer,
// "/keep" and "/parsed" wait.
class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpLimits limits = {}) {
    HttpHandler handler{
        .admit = [](HttpRequest& r) -> std::optional<HttpResponse> {
          if (r.path == "/no") return HttpResponse{.status = 403, .body = "no"};
          return std::nullopt;
        },
        .handle = [this](std::shared_ptr<Exchange> e) { handle(std::move(e)); },
        .refuse = [](int status,
                     const std::string& m) { return HttpResponse{.status = status, .body = m}; },
        .done =
            [this](const HttpRequest&, const HttpOutcome& outcome) {
              const std::lock_guard lock(mutex_);
              statuses_.push_back(outcome.status);
            }};
    server_ = std::make_unique<HttpServer>("127.0.0.1", 0, limits, std::move(handler));
    thread_ = start_thread([this] {
      server_->run(stop_, 4,
                   {.stopping =
                        [this] {
                          if (stopping_.valid()) stopping_.wait();
                        },
                    .drain_s = 300});
    });
    streams_.push_back(start_thread([this] { answer_later(); }));
  }
  void handle(std::shared_ptr<Exchange> e) {
    if (e->request.path == "/never") return;
    if (e->request.path == "/keep" || e->request.path == "/parsed") {
      if (e->request.path == "/parsed") e->request.release_body();
      const std::lock_guard lock(mutex_);
      exchanges_.push_back(std::move(e));
      return;
    }
    if (e->request.path == "/stream" || e->request.path == "/flood") {
      const std::lock_guard lock(mutex_);
      streams_.push_back(start_thread([e, this] {
        const std::string part =
            e->request.path == "/stream" ? "tick\n" : std::string(100'000, 'x');
        e->begin({.type = "text/event-stream"});
        while (!e->disconnected() && !enough_) {
          e->send(part);
          flooded_ += int64_t(part.size());
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        e->end();
        ++ended_;
      }));
      return;
    }
    if (e->request.path == "/later") {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(e));
      return;
    }
    e->answer({.type = "text/plain",
               .body = e->request.method + " " + e->request.path + " [" + e->request.query + "] " +
                       e->request.body});
  }
  void answer_later() {
    while (!enough_) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      std::vector<std::shared_ptr<Exchange>> now;
      {
        const std::lock_guard lock(mutex_);
        now.swap(waiting_);
      }
      for (const auto& e : now) e->answer({.body = e->disconnected() ? "gone" : "later"});
    }
  }
  void TearDown() override {
    enough_ = stop_ = true;
    {
      const std::lock_guard lock(mutex_);
      exchanges_.clear();
    }
    for (auto& stream : streams_) stream.join();
    if (thread_.joinable()) thread_.join();
  }
  std::string ask(const std::string& request) {
    Client client(server_->port());
    client.send(request);
    return client.read();
  }
  static std::string get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  }

  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_{false}, enough_{false};
  std::atomic<int> ended_{0};
  std::atomic<int64_t> flooded_{0};
  std::mutex mutex_;
  std::vector<std::thread> streams_;
  std::vector<std::shared_ptr<Exchange>> waiting_;
  std::vector<int> statuses_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
  std::promise<void> go_on_;
  std::shared_future<void> stopping_;  // what the server waits for when its end is requested
};

inline int status_of(const std::string& answer) {
  return answer.size() > 12 && answer.compare(0, 9, "HTTP/1.1 ") == 0
             ? std::stoi(answer.substr(9, 3))
             : 0;
}
inline bool ends_with_text(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace tost::testing
