// The connection of one client: reads requests within limits, calls the handler, writes answers.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "tost/base/error.h"
#include "tost/base/text.h"
#include "tost/serve/http_answer.h"
#include "tost/serve/http_core.h"

namespace tost {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;
using Message = http::request<http::string_body>;
using namespace net::experimental::awaitable_operators;

constexpr size_t kFirstBytes = 2048;  // bytes of one read at the beginning of a request
constexpr size_t kBodyBytes = 64 << 10;
constexpr int64_t kMaxDiscarded = 32 << 20;
// The factor by which chunks may enlarge a body: a chunk of one byte has five more bytes.
constexpr int64_t kMaxChunkBytes = 16;

struct Refusal {
  int status = 0;  // 0: none
  std::string message = {};
};

// Refuses a body of unknown length (RFC 9112, 6.3), whose bytes would be read as the next request.
Refusal unknown_length(const Message& message) {
  std::string codings;
  for (const auto& field : message) {
    if (field.name() == http::field::transfer_encoding) codings += cat(",", field.value());
  }
  if (codings.empty()) return {};
  codings = to_lower(codings);
  std::erase_if(codings, [](char c) { return c == ' ' || c == '\t'; });
  static const std::string kLast = ",chunked";
  const bool last = ends_with(codings, kLast) && message.version() >= 11;
  if (last && codings == kLast) return {};
  if (last && codings.find(kLast) == codings.size() - kLast.size()) {
    return {501, "Bodies with a Transfer-Encoding other than chunked are not read."};
  }
  return {400,
          "The last Transfer-Encoding of the request is not chunked, or it comes twice "
          "or in HTTP/1.0; send the body as it is, with its Content-Length."};
}

Refusal malformed(const Message& message) {
  const auto hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() >= 11)) {
    return {400, "The request has no header Host, or several; send one."};
  }
  if (message.target().empty() || message.target()[0] != '/') {
    return {400, "The target of the request does not begin with '/'."};
  }
  if (message.count(http::field::authorization) > 1 || message.count(http::field::origin) > 1) {
    return {400, "The request has a header twice that may come once."};
  }
  return unknown_length(message);
}

}  // namespace

class Connection : public Waiting, public std::enable_shared_from_this<Connection> {
 public:
  Connection(HttpCore& server, tcp::socket socket)
      : server_(&server),
        stream_(std::move(socket)),
        wake_(stream_.get_executor()),
        buffer_(size_t(server.limits.header_bytes) + kBodyBytes) {
    ++server_->count;
  }
  ~Connection() override { --server_->count; }

  void start() {
    net::co_spawn(
        stream_.get_executor(), [self = shared_from_this()] { return self->run(); }, net::detached);
  }

  bool close() override {
    if (closing_.exchange(true)) return false;
    try {
      net::post(stream_.get_executor(), [self = shared_from_this()] { self->stream_.close(); });
    } catch (const std::bad_alloc&) {
      closing_ = false;
      return false;
    }
    return true;
  }

 private:
  net::awaitable<void> run() {
    try {
      error_code unknown;
      client_ = stream_.socket().remote_endpoint(unknown).address().to_string();
      while (!server_->draining && co_await serve_one()) {
        if (buffer_.size() == 0) buffer_.shrink_to_fit();
      }
      co_await linger();
    } catch (const std::exception&) {
      // Ends the connection if memory is exhausted; other connections continue.
    }
  }

  // Reads and answers one request; returns whether another may follow.
  net::awaitable<bool> serve_one() {
    const auto& limits = server_->limits;
    Parser parser;
    parser.header_limit(uint32_t(limits.header_bytes));
    parser.body_limit(uint64_t(limits.body_bytes));
    auto error = co_await read_header(parser);
    HttpRequest request = error ? HttpRequest() : request_of(parser.get());
    request.id = server_->next_id();
    request.client = client_;
    if (error) co_return co_await refuse_broken(std::move(request), error);
    if (auto refusal = refused(parser, request)) {
      co_return co_await refuse(std::move(request), std::move(*refusal));
    }
    stream_.expires_after(seconds(limits.body_s));
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      static constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
      co_await net::async_write(stream_, net::buffer(kContinue, sizeof kContinue - 1), kResult);
    }
    auto share = std::make_shared<BodyShare>(server_->bodies);
    error = co_await read_body(parser, *share);
    request.body_share = std::move(share);
    if (error) co_return co_await refuse_broken(std::move(request), error);
    request.body = std::move(parser.get().body());
    co_return co_await answer(std::move(request), parser.get().version() >= 11,
                              parser.get().keep_alive());
  }

  // Decided by the header.
  std::optional<HttpResponse> refused(const Parser& parser, HttpRequest& request) const {
    if (const auto refusal = malformed(parser.get()); refusal.status != 0) {
      return server_->handler.refuse(refusal.status, refusal.message);
    }
    if (parser.content_length().value_or(0) > uint64_t(server_->limits.body_bytes)) {
      return refusal_of(http::error::body_limit);
    }
    if (server_->draining) return server_->handler.refuse(503, "The server is shutting down.");
    return server_->handler.admit(request);
  }

  // An entry in a list of waiting connections; the destructor removes the entry.
  class Place {
   public:
    Place(HttpCore& server, WaitingList& list, std::weak_ptr<Waiting> who)
        : server_(server), list_(list) {
      const std::lock_guard lock(server_.mutex);
      at_ = list_.insert(list_.end(), std::move(who));
    }
    ~Place() {
      const std::lock_guard lock(server_.mutex);
      list_.erase(at_);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    void move_to_end() {
      const std::lock_guard lock(server_.mutex);
      list_.splice(list_.end(), list_, at_);
    }

   private:
    HttpCore& server_;
    WaitingList& list_;
    WaitingList::iterator at_;
  };

  net::awaitable<error_code> read_header(Parser& parser) {
    const Place place(*server_, server_->idle, weak_from_this());
    const auto& limits = server_->limits;
    if (buffer_.size() == 0) {
      stream_.expires_after(
          seconds(std::exchange(fresh_, false) ? limits.header_s : limits.idle_s));
      const auto [error, count] =
          co_await stream_.async_read_some(buffer_.prepare(kFirstBytes), kResult);
      buffer_.commit(count);
      if (error) co_return error;
    }
    stream_.expires_after(seconds(limits.header_s));
    const auto [error, count] = co_await http::async_read_header(stream_, buffer_, parser, kResult);
    co_return error;
  }

  // Counts received bytes towards the limit of all bodies. Above the limit, closes the connection
  // that has waited longest for more bytes, or this connection if none waits.
  net::awaitable<error_code> read_body(Parser& parser, BodyShare& share) {
    Place place(*server_, server_->reading, weak_from_this());
    parser.eager(true);
    int64_t arrived = 0;
    while (!parser.is_done()) {
      const auto [error, count] = co_await http::async_read_some(stream_, buffer_, parser, kResult);
      if (error) co_return error;
      arrived += int64_t(count);
      const auto size = int64_t(parser.get().body().size());
      if (arrived - size > server_->limits.header_bytes + kMaxChunkBytes * size) {
        co_return http::error::header_limit;
      }
      share.grow(size);
      place.move_to_end();
      if (*server_->bodies > server_->limits.bodies_bytes &&
          !server_->make_room(server_->reading, this)) {
        co_return net::error::no_buffer_space;
      }
    }
    co_return error_code{};
  }

  static HttpRequest request_of(const Message& message) {
    HttpRequest r;
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

  // The answer to a failed read; no answer if the client disconnected or timed out.
  std::optional<HttpResponse> refusal_of(error_code error) const {
    const auto& limits = server_->limits;
    const auto& refuse = server_->handler.refuse;
    if (error == http::error::body_limit) {
      return refuse(413, cat("The body is longer than ", limits.body_bytes,
                             " bytes; send less, or raise --max-body."));
    }
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return refuse(431, cat("The headers of the request, or of its chunks, or its trailers are "
                             "longer than ",
                             limits.header_bytes, " bytes."));
    }
    if (error == net::error::no_buffer_space) {
      return refuse(503, "The server holds as many bytes of requests as it may; try again later.");
    }
    const bool parsed =
        error.category() == http::make_error_code(http::error::bad_method).category();
    if (!parsed || error == http::error::end_of_stream || error == http::error::partial_message) {
      return std::nullopt;
    }
    return refuse(400, cat("The request is not HTTP/1.1 (", error.message(), ")."));
  }

  net::awaitable<bool> refuse_broken(HttpRequest request, error_code error) {
    auto refusal = refusal_of(error);
    if (!refusal) co_return false;
    co_return co_await refuse(std::move(request), std::move(*refusal));
  }

  // Refuses a request and ends the connection, because the rest of the request is not read.
  net::awaitable<bool> refuse(HttpRequest request, HttpResponse response) {
    const Answering answering(*this, std::move(request), true, false);
    answering.exchange->answer(std::move(response));
    co_await write(answering.exchange);
    co_return false;
  }

  // The destructor writes a request's line in the log, in whatever way the request ends.
  struct Answering {
    Answering(Connection& connection, HttpRequest request, bool chunked, bool keep_alive)
        : connection(connection) {
      const auto wake = [weak = connection.weak_from_this()] {
        if (const auto self = weak.lock()) self->wake();
      };
      exchange = std::make_shared<Answer>(std::move(request), chunked, keep_alive, wake);
      ++connection.server_->answering;
    }
    ~Answering() {
      exchange->leave();
      try {
        connection.server_->handler.done(exchange->request, exchange->outcome());
      } catch (const std::exception&) {
        // Loses the line of the log if memory is exhausted.
      }
      --connection.server_->answering;
    }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;

    Connection& connection;
    std::shared_ptr<Answer> exchange;
  };

  net::awaitable<bool> answer(HttpRequest request, bool chunked, bool keep_alive) {
    const Answering answering(*this, std::move(request), chunked, keep_alive && !server_->draining);
    const auto& exchange = answering.exchange;
    server_->handler.handle(
        std::shared_ptr<Exchange>(exchange.get(), [exchange](Exchange*) { exchange->abandon(); }));
    co_await (write(exchange) || watch(exchange));
    co_return exchange->keep_alive() && whole_;
  }

  // Wakes the writer, from any thread. If memory is exhausted, the writer polls a second later.
  void wake() {
    try {
      net::post(stream_.get_executor(), [self = shared_from_this()] { self->wake_.cancel(); });
    } catch (const std::bad_alloc&) {
    }
  }

  // Writes bytes as they arrive until the answer has ended; sets whole_ if all were written.
  net::awaitable<void> write(std::shared_ptr<Answer> exchange) {
    whole_ = false;
    for (;;) {
      std::string bytes;
      const bool last = exchange->take(bytes);
      if (!bytes.empty()) {
        stream_.expires_after(seconds(server_->limits.write_s));
        const auto [error, count] = co_await net::async_write(stream_, net::buffer(bytes), kResult);
        if (error) co_return;
      }
      if (last) {
        whole_ = true;
        co_return;
      }
      if (exchange->disconnected()) co_return;
      if (!bytes.empty()) continue;
      wake_.expires_after(std::chrono::seconds(1));
      co_await wake_.async_wait(kResult);
    }
  }

  // Waits until the client closes the connection or sends the next request.
  net::awaitable<void> watch(std::shared_ptr<Answer> exchange) {
    error_code error;
    // Repeats the wait, because bytes that were read before may end it too early.
    do {
      const auto [ended] = co_await stream_.socket().async_wait(tcp::socket::wait_read, kResult);
      if (ended) co_return;
      char byte;
      stream_.socket().receive(net::buffer(&byte, 1), tcp::socket::message_peek, error);
    } while (error == net::error::would_block || error == net::error::interrupted);
    if (error) {
      exchange->leave();
      co_return;
    }
    net::steady_timer never(stream_.get_executor(), Clock::time_point::max());
    co_await never.async_wait(kResult);
  }

  // Waits until the client has read the last answer, because closing a socket with unread bytes
  // resets the connection.
  net::awaitable<void> linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (ignored) co_return;
    stream_.expires_after(std::chrono::seconds(2));
    char scrap[4096];
    for (int64_t all = 0; all < kMaxDiscarded;) {
      const auto [error, count] = co_await stream_.async_read_some(net::buffer(scrap), kResult);
      if (error) break;
      all += int64_t(count);
    }
    stream_.close();
  }

  HttpCore* const server_;  // outlives all connections
  beast::tcp_stream stream_;
  net::steady_timer wake_;
  beast::flat_buffer buffer_;
  std::string client_;
  bool whole_ = false, fresh_ = true;
  std::atomic<bool> closing_{false};
};

void start_connection(HttpCore& server, tcp::socket socket) {
  std::make_shared<Connection>(server, std::move(socket))->start();
}

}  // namespace tost
