// Data that the listener and the connections of an HttpServer share. Only http.cc and
// http_connection.cc include this header, because Boost takes long to compile.
#pragma once

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "tost/serve/http.h"

namespace tost {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;

inline constexpr auto kResult = net::as_tuple(net::use_awaitable);

inline std::chrono::steady_clock::duration seconds(double s) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(s));
}

// An open connection that waits in a list.
class Waiting {
 public:
  virtual ~Waiting() = default;
  // Closes the connection, from any thread; returns false if the connection is already closing.
  virtual bool close() = 0;
};
using WaitingList = std::list<std::weak_ptr<Waiting>>;

// The bytes of one unparsed body, which count towards the limit of all bodies.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<std::atomic<int64_t>> sum) : sum_(std::move(sum)) {}
  ~BodyShare() { *sum_ -= bytes_; }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  void grow(int64_t bytes) {
    *sum_ += bytes - bytes_;
    bytes_ = bytes;
  }

 private:
  // shared, because a waiting request may outlive the server
  const std::shared_ptr<std::atomic<int64_t>> sum_;
  int64_t bytes_ = 0;
};

struct HttpCore {
  HttpCore(const HttpLimits& l, HttpHandler h) : limits(l), handler(std::move(h)) {
    for (int i = 0; i < 64; ++i) strands.push_back(net::make_strand(io));
  }

  void listen(const std::string& address, int64_t wanted);
  // Accepts connections; continues after an exception.
  void keep_accepting();
  net::awaitable<void> accept(std::shared_ptr<void> alive);
  // Closes the connection of `list` that has waited longest, except `but`; false if none waits.
  bool make_room(WaitingList& list, const Waiting* but = nullptr);
  void close_idle();
  std::string next_id();

  const HttpLimits limits;
  const HttpHandler handler;
  int64_t port = 0;
  std::atomic<bool> draining{false}, accepting{false};
  std::atomic<int64_t> count{0}, answering{0}, ids{0};
  const std::shared_ptr<std::atomic<int64_t>> bodies = std::make_shared<std::atomic<int64_t>>(0);
  const uint64_t session = uint64_t(std::chrono::system_clock::now().time_since_epoch().count());
  std::mutex mutex;
  // Connections that wait for a header or for more of a body; the one that waits longest is first.
  WaitingList idle, reading;
  // The last member, so that connections are destroyed before the members to which they refer.
  net::io_context io;
  tcp::acceptor acceptor{net::make_strand(io)};
  // Strands that connections share, because Boost crashes if memory for a new strand is missing.
  std::vector<net::strand<net::io_context::executor_type>> strands;
  size_t next_strand = 0;
};

// Serves a client until the client or the server closes the connection.
void start_connection(HttpCore& server, tcp::socket socket);

}  // namespace tost
