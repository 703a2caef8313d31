#include "tost/serve/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "tost/base/error.h"
#include "tost/base/thread.h"

namespace tost {
namespace {

// A client that says what it is told, byte for byte.
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
  void send(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const auto n = ::send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += size_t(n);
    }
  }
  // What comes until `end` is in it, or the server closes, or nothing comes for a while.
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

// Whether it becomes true, within a time that no machine needs.
template <class Done>
bool comes(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Echoes bodies; "/stream" answers in parts until the client leaves, "/never" lets go.
class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpLimits limits = {}) {
    HttpHandler handler{
        .admit = [](const HttpRequest& r) -> std::optional<HttpResponse> {
          if (r.path == "/no") return HttpResponse{.status = 403, .body = "no"};
          return std::nullopt;
        },
        .handle = [this](std::shared_ptr<Exchange> e) { handle(std::move(e)); },
        .refuse = [](int status,
                     const std::string& m) { return HttpResponse{.status = status, .body = m}; },
        .done =
            [this](const HttpRequest&, int status, int64_t, double) {
              const std::lock_guard lock(mutex_);
              statuses_.push_back(status);
            }};
    server_ = std::make_unique<HttpServer>("127.0.0.1", 0, limits, std::move(handler));
    thread_ = start_thread([this] { server_->run(stop_, 4, 300); });
    streams_.push_back(start_thread([this] { answer_later(); }));
  }
  void handle(std::shared_ptr<Exchange> e) {
    if (e->request.path == "/never") return;
    if (e->request.path == "/stream" || e->request.path == "/flood") {
      const std::lock_guard lock(mutex_);
      streams_.push_back(start_thread([e, this] {
        const std::string part =
            e->request.path == "/stream" ? "tick\n" : std::string(100'000, 'x');
        e->begin({.type = "text/event-stream"});
        while (!e->gone() && !enough_) {
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
      for (const auto& e : now) e->answer({.body = e->gone() ? "gone" : "later"});
    }
  }
  void TearDown() override {
    enough_ = stop_ = true;
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
};

int status_of(const std::string& answer) {
  return answer.size() > 12 && answer.compare(0, 9, "HTTP/1.1 ") == 0
             ? std::stoi(answer.substr(9, 3))
             : 0;
}
bool ends_with_text(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

TEST_F(HttpServerTest, AnswersRequestsOneAfterAnother) {
  start();
  Client client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.send("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    const auto answer = client.read("hello");
    EXPECT_EQ(status_of(answer), 200);
    EXPECT_TRUE(ends_with_text(answer, "\r\n\r\nPOST /a [b=c] hello")) << answer;
    EXPECT_NE(answer.find("X-Request-Id: req-"), std::string::npos);
  }
  // Two at once, and one byte by byte.
  client.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto both = client.read("GET /2 [] ");
  EXPECT_NE(both.find("GET /1 [] "), std::string::npos);
  for (const char c : get("/slow")) client.send(std::string(1, c));
  EXPECT_NE(client.read().find("GET /slow [] "), std::string::npos);
}

// One thread may be told of bytes that another has read already: nobody has left for that.
TEST_F(HttpServerTest, AClientThatWaitsIsThere) {
  start();
  std::vector<std::thread> clients;
  std::atomic<int> there{0};
  for (int c = 0; c < 8; ++c) {
    clients.push_back(start_thread([&] {
      Client client(server_->port());
      for (int i = 0; i < 400; ++i) {
        client.send("POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
        const auto answer = client.read("later");
        if (!ends_with_text(answer, "later")) break;
        ++there;
      }
    }));
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(there, 8 * 400);
}

TEST_F(HttpServerTest, ReadsChunksAndWaitsToBeAsked) {
  start();
  EXPECT_TRUE(ends_with_text(
      ask("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
      "POST / [] abcde"));
  Client client(server_->port());
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_TRUE(ends_with_text(client.read("] ok"), "POST / [] ok"));
  EXPECT_TRUE(ends_with_text(ask("GET /old HTTP/1.0\r\n\r\n"), "GET /old [] "));
  EXPECT_TRUE(
      ends_with_text(ask("HEAD /h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), "\r\n\r\n"));
}

TEST_F(HttpServerTest, RefusesWhatIsNoRequest) {
  start({.header_bytes = 1000, .body_bytes = 1000});
  const std::string host = "Host: x\r\n";
  const std::vector<std::pair<int, std::string>> corpus{
      {400, "\r\n\r\n\r\nnonsense\r\n\r\n"},
      {400, "GET\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\n\r\n"},  // no host
      {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
      {400, "GET / HTTP/9.9\r\n" + host + "\r\n"},
      {400, "GET http://x/ HTTP/1.1\r\n" + host + "\r\n"},
      {400, "GET / HTTP/1.1\r\n" + host + "a b: c\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\n" + host + "a: \x01\r\n\r\n"},
      {400, std::string("GET /\0 HTTP/1.1\r\n", 17) + host + "\r\n"},
      {400, "POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
      {400, "POST / HTTP/1.1\r\n" + host +
                "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                "0\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"},
      {400, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n-1\r\n"},
      {413, "POST / HTTP/1.1\r\n" + host + "Content-Length: 1001\r\n\r\n"},
      {413, "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n7D0\r\n" +
                std::string(2000, 'x') + "\r\n0\r\n\r\n"},
      {431, "GET / HTTP/1.1\r\n" + host + "a: " + std::string(2000, 'x') + "\r\n\r\n"},
      {431, "GET /" + std::string(5000, 'x')},
      {403, "POST /no HTTP/1.1\r\n" + host + "Content-Length: 900\r\n\r\n"},  // before the body
  };
  for (const auto& [status, text] : corpus) EXPECT_EQ(status_of(ask(text)), status) << text;
  EXPECT_EQ(status_of(ask(get("/"))), 200);
}

TEST_F(HttpServerTest, SlowRequestsEndAtTheirTime) {
  start({.header_s = 3, .body_s = 3});  // enough for a request on a busy machine
  Client silent(server_->port()), half(server_->port()), body(server_->port());
  half.send("GET / HT");
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(status_of(ask(get("/"))), 200);
  EXPECT_EQ(silent.read(), "");
  EXPECT_EQ(half.read(), "");
  EXPECT_EQ(body.read(), "");
}

TEST_F(HttpServerTest, SilentConnectionsMakeRoomForThoseThatSpeak) {
  start({.connections = 50});
  std::vector<Client> silent;
  for (int i = 0; i < 200; ++i) silent.emplace_back(server_->port());
  for (int i = 0; i < 20; ++i) ASSERT_EQ(status_of(ask(get("/"))), 200);
  EXPECT_TRUE(comes([&] { return server_->connections() <= 60; }));
  EXPECT_EQ(silent.front().read(), "");  // a clean end
}

TEST_F(HttpServerTest, BodiesTogetherHaveALimit) {
  start({.body_bytes = 1000, .bodies_bytes = 1500});
  Client first(server_->port());
  first.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\na");
  const std::string second =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n" +
      std::string(1000, 'b');
  EXPECT_TRUE(comes([&] { return status_of(ask(second)) == 503; }));
  first.close();
  EXPECT_TRUE(comes([&] { return status_of(ask(second)) == 200; }));
}

TEST_F(HttpServerTest, StreamsUntilTheClientLeaves) {
  start();
  Client client(server_->port());
  client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto answer = client.read("tick\n\r\n5\r\ntick\n");
  EXPECT_NE(answer.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_EQ(ended_, 0);
  client.close();
  EXPECT_TRUE(comes([&] { return ended_ == 1; }));
}

TEST_F(HttpServerTest, ClientsThatDoNotReadAreLeft) {
  start({.write_s = 60});
  Client client(server_->port());
  client.send("GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(comes([&] { return ended_ == 1; }));
  EXPECT_LT(flooded_, 64 << 20);  // what a client does not read is not kept
  EXPECT_EQ(status_of(ask(get("/"))), 200);
}

TEST_F(HttpServerTest, AnExchangeLetGoClosesItsConnection) {
  start();
  EXPECT_EQ(ask(get("/never")), "");
  EXPECT_EQ(status_of(ask(get("/"))), 200);
}

TEST_F(HttpServerTest, DrainsWhatRuns) {
  start();
  Client client(server_->port()), idle(server_->port());
  client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  client.read("tick");
  stop_ = true;
  EXPECT_EQ(idle.read(), "");
  EXPECT_FALSE(Client(server_->port()).connected() && ask(get("/")) != "");
  enough_ = true;
  EXPECT_TRUE(ends_with_text(client.read("0\r\n\r\n"), "0\r\n\r\n"));
}

TEST(HttpAddress, IsNumericAndFree) {
  EXPECT_THROW(HttpServer("localhost", 0, {}, {}), Error);
  HttpServer first("127.0.0.1", 0, {}, {});
  EXPECT_THROW(HttpServer("127.0.0.1", first.port(), {}, {}), Error);
}

}  // namespace
}  // namespace tost
