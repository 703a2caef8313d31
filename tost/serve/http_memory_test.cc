// A server in which allocations fail.
#include <cstdlib>
#include <new>

#include "tost/serve/http_test_util.h"

namespace {

// Of all threads but those that are spared: how many allocations succeed before `fail_count` fail.
std::atomic<bool> failing{false};
std::atomic<int64_t> seen{0}, fail_at{0}, fail_count{0};
thread_local bool exempt = false;

bool fails() {
  if (!failing || exempt) return false;
  const int64_t i = seen++;
  return i >= fail_at && i < fail_at + fail_count;
}

}  // namespace

// NOLINTBEGIN
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return fails() ? nullptr : std::malloc(size > 0 ? size : 1);
}
void* operator new(size_t size) {
  void* memory = operator new(size, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
// NOLINTEND

namespace tost {
namespace {

using testing::Client, testing::comes, testing::HttpServerTest, testing::status_of;

// Wherever memory ends, one connection may end, and those after it are served.
TEST_F(HttpServerTest, SlowOneRequestEndsWhereMemoryDoes) {
  exempt = true;
  start();
  // A server that cannot start its threads says so; that is not meant here.
  ASSERT_EQ(status_of(ask(get("/"))), 200);
  for (const int64_t count : {1, 7, 60}) {
    fail_count = count;
    for (fail_at = 0;; ++fail_at) {
      seen = 0;
      failing = true;
      Client client(server_->port());
      client.send(
          "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\nConnection: close\r\n\r\n" +
          std::string(300'000, 'x'));
      const auto answer = client.read();
      failing = false;
      ASSERT_EQ(answer.find("(silence)"), std::string::npos) << fail_at;
      ASSERT_TRUE(comes([&] { return status_of(ask(get("/"))) == 200; })) << fail_at;
      if (seen < fail_at) break;
    }
    EXPECT_GT(fail_at, 20);
  }
  EXPECT_TRUE(comes([&] { return server_->connections() == 0; }));
}

}  // namespace
}  // namespace tost
