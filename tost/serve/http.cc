// The only source that knows Boost: its parser of HTTP, its sockets and timers.
#include "tost/serve/http.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <chrono>
#include <list>
#include <mutex>
#include <thread>

#include "tost/base/error.h"
#include "tost/base/path.h"
#include "tost/base/thread.h"
#include "tost/serve/http_answer.h"

namespace tost {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using net::ip::tcp;
using Clock = std::chrono::steady_clock;
using namespace net::experimental::awaitable_operators;

constexpr auto kResult = net::as_tuple(net::use_awaitable);
constexpr size_t kFirstBytes = 2048;  // read at once where a request begins
constexpr int64_t kMostDiscarded = 32 << 20;

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

}  // namespace

class Connection;

struct HttpCore {
  HttpCore(const HttpLimits& l, HttpHandler h) : limits(l), handler(std::move(h)) {}

  void listen(const std::string& address, int64_t wanted);
  net::awaitable<void> accept();
  bool make_room();
  void close_idle();
  std::string next_id();

  const HttpLimits limits;
  const HttpHandler handler;
  int64_t port = 0;
  std::atomic<bool> draining{false};
  std::atomic<int64_t> count{0}, answering{0}, bodies{0}, ids{0};
  uint64_t session = uint64_t(std::chrono::system_clock::now().time_since_epoch().count());
  std::mutex mutex;
  std::list<std::weak_ptr<Connection>> idle;  // those that wait for a header, the oldest first
  // Last, so that connections which still run go while there is what they refer to.
  net::io_context io;
  tcp::acceptor acceptor{io};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Parser = http::request_parser<http::string_body>;

  Connection(HttpCore& server, tcp::socket socket)
      : server_(&server), stream_(std::move(socket)), wake_(stream_.get_executor()) {
    ++server_->count;
    wake_.expires_at(Clock::time_point::max());
  }
  ~Connection() { --server_->count; }

  void start() {
    net::co_spawn(
        stream_.get_executor(), [self = shared_from_this()] { return self->run(); }, net::detached);
  }

  // False where it is being closed already.
  bool close() {
    if (closing_.exchange(true)) return false;
    net::post(stream_.get_executor(), [self = shared_from_this()] { self->stream_.close(); });
    return true;
  }

 private:
  net::awaitable<void> run() {
    try {
      while (!server_->draining && co_await serve_one()) {
      }
    } catch (const std::exception&) {
      // Out of memory: this connection ends, others may continue.
    }
    co_await linger();
  }

  // Reads and answers one request; whether another may follow.
  net::awaitable<bool> serve_one() {
    Parser parser;
    parser.header_limit(uint32_t(server_->limits.header_bytes));
    parser.body_limit(uint64_t(server_->limits.body_bytes));
    const auto started = co_await read_header(parser);
    if (!started) co_return false;
    HttpRequest request = request_of(parser.get());
    if (const auto status = malformed(parser.get()); !status.empty()) {
      co_return co_await refuse(std::move(request), server_->handler.refuse(400, status));
    }
    const int64_t length = parser.content_length()
                               ? int64_t(std::min<uint64_t>(*parser.content_length(), 1ull << 62))
                           : parser.chunked() ? server_->limits.body_bytes
                                              : 0;
    if (length > server_->limits.body_bytes) co_return co_await refuse_body(std::move(request));
    if (auto refusal = server_->handler.admit(request)) {
      co_return co_await refuse(std::move(request), std::move(*refusal));
    }
    const Held held(server_->bodies, length);
    if (server_->bodies > server_->limits.bodies_bytes) {
      co_return co_await refuse(std::move(request),
                                server_->handler.refuse(503,
                                                        "The server holds as many bytes of "
                                                        "requests as it may; try again."));
    }
    stream_.expires_after(seconds(server_->limits.body_s));
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      static constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await net::async_write(stream_, net::buffer(kContinue, sizeof kContinue - 1), kResult);
    }
    const auto [error, bytes] = co_await http::async_read(stream_, buffer_, parser, kResult);
    if (error) co_return co_await refuse_broken(std::move(request), error);
    request.body = std::move(parser.get().body());
    co_return co_await answer(std::move(request), parser.get().version() >= 11,
                              parser.get().keep_alive());
  }

  struct Held {
    Held(std::atomic<int64_t>& sum, int64_t count) : sum(sum), count(count) { sum += count; }
    ~Held() { sum -= count; }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    std::atomic<int64_t>& sum;
    const int64_t count;
  };

  net::awaitable<bool> read_header(Parser& parser) {
    {
      const std::lock_guard lock(server_->mutex);
      place_ = server_->idle.insert(server_->idle.end(), weak_from_this());
    }
    error_code error;
    if (buffer_.size() == 0) {
      const auto& limits = server_->limits;
      stream_.expires_after(
          seconds(std::exchange(fresh_, false) ? limits.header_s : limits.idle_s));
      const auto [failed, count] =
          co_await stream_.async_read_some(buffer_.prepare(kFirstBytes), kResult);
      buffer_.commit(count);
      error = failed;
    }
    if (!error) {
      stream_.expires_after(seconds(server_->limits.header_s));
      const auto [failed, count] =
          co_await http::async_read_header(stream_, buffer_, parser, kResult);
      error = failed;
    }
    {
      const std::lock_guard lock(server_->mutex);
      server_->idle.erase(place_);
    }
    if (!error) co_return true;
    HttpRequest request;
    request.id = server_->next_id();
    co_return co_await refuse_broken(std::move(request), error);
  }

  HttpRequest request_of(const http::request<http::string_body>& message) {
    HttpRequest r;
    r.id = server_->next_id();
    r.method = std::string(message.method_string());
    const std::string target(message.target());
    const size_t mark = target.find('?');
    r.path = target.substr(0, mark);
    if (mark != std::string::npos) r.query = target.substr(mark + 1);
    r.host = std::string(message[http::field::host]);
    r.origin = std::string(message[http::field::origin]);
    r.authorization = std::string(message[http::field::authorization]);
    r.content_type = std::string(message[http::field::content_type]);
    return r;
  }

  static std::string malformed(const http::request<http::string_body>& message) {
    const auto hosts = message.count(http::field::host);
    if (hosts > 1 || (hosts == 0 && message.version() >= 11)) {
      return "The request has no header Host, or several; send one.";
    }
    if (message.target().empty() || message.target()[0] != '/') {
      return "The target of the request does not begin with '/'.";
    }
    if (message.count(http::field::authorization) > 1 || message.count(http::field::origin) > 1) {
      return "The request has a header twice that may come once.";
    }
    return {};
  }

  net::awaitable<bool> refuse_body(HttpRequest request) {
    co_return co_await refuse(
        std::move(request),
        server_->handler.refuse(413, cat("The body is longer than ", server_->limits.body_bytes,
                                         " bytes; send less, or raise --max-body.")));
  }

  // Where the client left, or took too long, its connection is closed already.
  net::awaitable<bool> refuse_broken(HttpRequest request, error_code error) {
    if (error == http::error::body_limit) co_return co_await refuse_body(std::move(request));
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      co_return co_await refuse(
          std::move(request),
          server_->handler.refuse(
              431, cat("The header is longer than ", server_->limits.header_bytes, " bytes.")));
    }
    const bool parsed =
        error.category() == http::make_error_code(http::error::bad_method).category();
    if (!parsed || error == http::error::end_of_stream || error == http::error::partial_message) {
      co_return false;
    }
    co_return co_await refuse(
        std::move(request),
        server_->handler.refuse(400, cat("The request is not HTTP/1.1 (", error.message(), ").")));
  }

  // The rest of the request is not read, so the connection ends with the answer.
  net::awaitable<bool> refuse(HttpRequest request, HttpResponse response) {
    auto exchange = make_answer(std::move(request), true, false);
    exchange->answer(std::move(response));
    co_await write(exchange);
    co_return false;
  }

  std::shared_ptr<Answer> make_answer(HttpRequest request, bool chunked, bool keep_alive) {
    begun_ = Clock::now();
    const auto wake = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        net::post(self->stream_.get_executor(), [self] { self->wake_.cancel(); });
      }
    };
    return std::make_shared<Answer>(std::move(request), chunked, keep_alive, wake);
  }

  net::awaitable<bool> answer(HttpRequest request, bool chunked, bool keep_alive) {
    const Held one(server_->answering, 1);
    auto exchange = make_answer(std::move(request), chunked, keep_alive && !server_->draining);
    server_->handler.handle(
        std::shared_ptr<Exchange>(exchange.get(), [exchange](Exchange*) { exchange->abandon(); }));
    co_await (write(exchange) || watch(exchange));
    exchange->leave();
    co_return exchange->keep_alive() && whole_;
  }

  // Writes what there is until the answer has ended; whole_: all of it.
  net::awaitable<void> write(std::shared_ptr<Answer> exchange) {
    whole_ = false;
    for (;;) {
      std::string bytes;
      const bool last = exchange->take(bytes);
      if (!bytes.empty()) {
        stream_.expires_after(seconds(server_->limits.write_s));
        const auto [error, count] = co_await net::async_write(stream_, net::buffer(bytes), kResult);
        if (error) break;
      }
      if (last) {
        whole_ = true;
        break;
      }
      if (exchange->gone()) break;
      if (!bytes.empty()) continue;
      wake_.expires_at(Clock::time_point::max());
      co_await wake_.async_wait(kResult);
    }
    if (!whole_) exchange->leave();
    server_->handler.done(exchange->request, exchange->status(), exchange->written(),
                          std::chrono::duration<double>(Clock::now() - begun_).count());
  }

  // Ends once the client has closed its side. Further bytes are a request that waits its turn.
  net::awaitable<void> watch(std::shared_ptr<Answer> exchange) {
    ssize_t count = -1;
    // Bytes that are read already may wake it.
    do {
      const auto [error] = co_await stream_.socket().async_wait(tcp::socket::wait_read, kResult);
      if (error) co_return;
      char byte;
      count = ::recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    } while (count < 0 && (errno == EAGAIN || errno == EINTR));
    if (count <= 0) {
      exchange->leave();
      co_return;
    }
    net::steady_timer never(stream_.get_executor(), Clock::time_point::max());
    co_await never.async_wait(kResult);
  }

  // Lets the client read the last answer: closing with bytes unread would take it back.
  net::awaitable<void> linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (ignored) co_return;
    stream_.expires_after(std::chrono::seconds(2));
    char scrap[4096];
    for (int64_t all = 0; all < kMostDiscarded;) {
      const auto [error, count] = co_await stream_.async_read_some(net::buffer(scrap), kResult);
      if (error) break;
      all += int64_t(count);
    }
    stream_.close();
  }

  HttpCore* const server_;  // outlives all connections
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  net::steady_timer wake_;
  std::list<std::weak_ptr<Connection>>::iterator place_;
  Clock::time_point begun_;
  bool whole_ = false, fresh_ = true;
  std::atomic<bool> closing_{false};
};

void HttpCore::listen(const std::string& address, int64_t wanted) {
  error_code error;
  const auto ip = net::ip::make_address(address, error);
  if (error) {
    fail_usage("The address '", address,
               "' is not numeric; 127.0.0.1 serves this machine alone, "
               "0.0.0.0 all that can reach it.");
  }
  const tcp::endpoint place(ip, uint16_t(wanted));
  acceptor.open(place.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(place, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error) {
    fail_data("Cannot listen on ", address, " port ", wanted, ": ", system_reason(error.value()),
              error.value() == EADDRNOTAVAIL ? "; --host is an address of this machine."
                                             : "; choose another --port, or end what uses it.");
  }
  port = acceptor.local_endpoint().port();
}

std::string HttpCore::next_id() {
  char id[40];
  std::snprintf(id, sizeof id, "req-%llx-%llx", static_cast<unsigned long long>(session >> 20),
                static_cast<unsigned long long>(++ids));
  return id;
}

// Closes the connection that has waited longest for a request to come; false where there is none.
bool HttpCore::make_room() {
  const std::lock_guard lock(mutex);
  for (const auto& weak : idle) {
    const auto connection = weak.lock();
    if (connection != nullptr && connection->close()) return true;
  }
  return false;
}

void HttpCore::close_idle() {
  while (make_room()) {
  }
}

net::awaitable<void> HttpCore::accept() {
  net::steady_timer pause(io);
  while (!draining) {
    auto [error, socket] = co_await acceptor.async_accept(net::make_strand(io), kResult);
    if (error == net::error::operation_aborted) break;
    if (error) {  // no descriptors, or a client that left already
      make_room();
      pause.expires_after(std::chrono::milliseconds(20));
      co_await pause.async_wait(kResult);
      continue;
    }
    if (count >= limits.connections && !make_room()) {
      static constexpr char kFull[] =
          "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
          "Connection: close\r\n\r\n";
      ::send(socket.native_handle(), kFull, sizeof kFull - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
      continue;
    }
    socket.set_option(tcp::no_delay(true), error);
    std::make_shared<Connection>(*this, std::move(socket))->start();
  }
}

HttpServer::HttpServer(const std::string& address, int64_t port, const HttpLimits& limits,
                       HttpHandler handler)
    : core_(std::make_unique<HttpCore>(limits, std::move(handler))) {
  core_->listen(address, port);
}

HttpServer::~HttpServer() = default;

int64_t HttpServer::port() const {
  return core_->port;
}

int64_t HttpServer::connections() const {
  return core_->count;
}

void HttpServer::run(const std::atomic<bool>& stop, int64_t threads, double drain_s,
                     const std::function<void()>& ending) {
  auto& io = core_->io;
  auto work = net::make_work_guard(io);
  net::co_spawn(io, core_->accept(), net::detached);
  std::vector<std::thread> pool;
  try {
    for (int64_t i = 0; i < threads; ++i) {
      pool.push_back(start_thread([&io] { io.run(); }));
    }
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  } catch (const Error&) {
    io.stop();
    for (auto& thread : pool) thread.join();
    throw;
  }
  core_->draining = true;
  net::post(io, [this] {
    error_code ignored;
    core_->acceptor.close(ignored);
  });
  const auto end = Clock::now() + seconds(drain_s);
  while (core_->answering > 0 && Clock::now() < end) {
    core_->close_idle();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  core_->close_idle();
  if (ending) ending();
  const auto last = Clock::now() + std::chrono::seconds(1);
  while (core_->answering > 0 && Clock::now() < last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  io.stop();
  for (auto& thread : pool) thread.join();
}

}  // namespace tost
