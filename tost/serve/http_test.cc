#include "tost/base/error.h"
#include "tost/serve/http_test_util.h"

namespace tost {
namespace {

using testing::Client, testing::comes, testing::ends_with_text, testing::HttpServerTest;
using testing::status_of;

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

TEST_F(HttpServerTest, ReadsChunksAfterTheContinueLine) {
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

// Closing the sending side is leaving; the log knows of such requests as of others.
TEST_F(HttpServerTest, RequestsOfThoseThatLeaveAreLogged) {
  start();
  Client early(server_->port()), late(server_->port());
  early.send("GET /keep HTTP/1.1\r\nHost: x\r\n\r\n");
  early.close_sending();
  EXPECT_EQ(early.read(), "");
  late.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  late.read("tick");
  late.close_sending();
  const auto logged = [this](int status) {
    const std::lock_guard lock(mutex_);
    return std::count(statuses_.begin(), statuses_.end(), status);
  };
  EXPECT_TRUE(comes([&] { return logged(499) == 1 && logged(200) == 1; }));
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

TEST_F(HttpServerTest, TakesRequestsUntilItsNoticeIsOver) {
  stopping_ = go_on_.get_future().share();
  start();
  stop_ = true;
  EXPECT_EQ(status_of(ask(get("/"))), 200);
  go_on_.set_value();
  thread_.join();
  EXPECT_FALSE(Client(server_->port()).connected());
}

TEST(HttpAddress, IsNumericAndFree) {
  EXPECT_THROW(HttpServer("localhost", 0, {}, {}), Error);
  HttpServer first("127.0.0.1", 0, {}, {});
  EXPECT_THROW(HttpServer("127.0.0.1", first.port(), {}, {}), Error);
}

}  // namespace
}  // namespace tost
