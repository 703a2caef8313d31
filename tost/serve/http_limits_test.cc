#include "tost/serve/http_test_util.h"

namespace tost {
namespace {

using testing::Client, testing::comes, testing::ends_with_text, testing::HttpServerTest;
using testing::status_of;

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

std::string post_of(const std::string& path, size_t announced, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(announced) +
         "\r\nConnection: close\r\n\r\n" + body;
}

TEST_F(HttpServerTest, BodiesThatAreAnnouncedTakeNothing) {
  start({.body_bytes = 1000, .bodies_bytes = 1500});
  std::vector<Client> idle;
  for (int i = 0; i < 32; ++i) {
    idle.emplace_back(server_->port());
    idle.back().send(i % 2 ? post_of("/", 1000, "a")
                           : "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  EXPECT_EQ(status_of(ask(post_of("/", 1000, std::string(1000, 'b')))), 200);
}

TEST_F(HttpServerTest, TheBodyThatHasWaitedLongestMakesRoom) {
  start({.body_bytes = 1000, .bodies_bytes = 1500});
  Client first(server_->port());
  first.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n" +
             std::string(900, 'a'));
  first.read("Continue\r\n\r\n");
  // Its bytes may arrive after those of the next one.
  EXPECT_TRUE(comes([&] {
    EXPECT_EQ(status_of(ask(post_of("/", 1000, std::string(1000, 'b')))), 200);
    return first.read("", 100).empty();
  }));
}

TEST_F(HttpServerTest, BodiesTogetherHaveALimitUntilTheyAreParsed) {
  start({.body_bytes = 1000, .bodies_bytes = 1500});
  const auto count = [this] {
    const std::lock_guard lock(mutex_);
    return exchanges_.size();
  };
  const std::string body(1000, 'b');
  Client parsed(server_->port()), waits(server_->port());
  parsed.send(post_of("/parsed", 1000, body));
  EXPECT_TRUE(comes([&] { return count() == 1; }));
  waits.send(post_of("/keep", 1000, body));
  EXPECT_TRUE(comes([&] { return count() == 2; }));
  EXPECT_EQ(status_of(ask(post_of("/", 1000, body))), 503);
  EXPECT_EQ(status_of(ask(post_of("/", 400, std::string(400, 'c')))), 200);
  {
    const std::lock_guard lock(mutex_);
    exchanges_.clear();
  }
  EXPECT_EQ(waits.read(), "");
  EXPECT_EQ(status_of(ask(post_of("/", 1000, body))), 200);
}

TEST_F(HttpServerTest, ChunksHaveShortHeadersAndTrailers) {
  start({.header_bytes = 1000});
  const std::string head =
      "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string small, extended, trailers;
  for (int i = 0; i < 3000; ++i) small += "1\r\nx\r\n";
  for (int i = 0; i < 300; ++i) extended += "1;a=" + std::string(100, 'y') + "\r\nx\r\n";
  for (int i = 0; i < 3000; ++i) trailers += "a" + std::to_string(i) + ": b\r\n";
  EXPECT_TRUE(ends_with_text(ask(head + small + "0\r\n\r\n"), std::string(3000, 'x')));
  EXPECT_EQ(status_of(ask(head + "1;a=b\r\nx\r\n0\r\nc: d\r\n\r\n")), 200);
  EXPECT_EQ(status_of(ask(head + extended + "0\r\n\r\n")), 431);
  EXPECT_EQ(status_of(ask(head + "1;a=" + std::string(1 << 20, 'y'))), 431);
  EXPECT_EQ(status_of(ask(head + "1\r\nx\r\n0\r\n" + trailers + "\r\n")), 431);
}

// RFC 9112, 6.3: what follows a body of unknown length must not run as a request.
TEST_F(HttpServerTest, ABodyOfUnknownLengthIsNotTheNextRequest) {
  start();
  const std::string next = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::pair<int, std::string> corpus[] = {
      {400, "Transfer-Encoding: gzip\r\n"},
      {400, "Transfer-Encoding: chunked, gzip\r\n"},
      {400, "Transfer-Encoding: chunked, chunked\r\n"},
      {400, "Transfer-Encoding: \r\n"},
      {400, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"},
      {501, "Transfer-Encoding: gzip, chunked\r\n"},
      {501, "Transfer-Encoding: gzip\r\nTransfer-Encoding: Chunked\r\n"}};
  for (const auto& [status, header] : corpus) {
    for (const std::string body : {"", "0\r\n\r\n"}) {
      const auto answer = ask("POST / HTTP/1.1\r\nHost: x\r\n" + header + "\r\n" + body + next);
      EXPECT_EQ(status_of(answer), status) << header;
      EXPECT_EQ(answer.find("/next"), std::string::npos) << header;
    }
  }
  EXPECT_EQ(status_of(ask("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")), 400);
}

}  // namespace
}  // namespace tost
