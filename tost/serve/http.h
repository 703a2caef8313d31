// An HTTP/1.1 server: reads requests within limits of size and time; any thread may write answers
// and streams. The handler interprets requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tost {

struct HttpLimits {
  int64_t header_bytes = 16 << 10;
  int64_t body_bytes = 8 << 20;
  int64_t bodies_bytes = 256 << 20;  // of all bodies that are being received or wait to be parsed
  int64_t connections = 2000;
  // Time limits for a whole header, body or answer, also of a client that sends byte by byte.
  double header_s = 20, body_s = 60, write_s = 30;
  double idle_s = 75;  // between requests of a connection
};

struct HttpRequest {
  std::string id;  // of the log and of the answer's header X-Request-Id
  std::string method, path, query;
  std::string host, origin, authorization, content_type;
  std::string client;        // its address
  std::string allow_origin;  // set by admit(): the site whose pages may read the answer
  std::string body;
  std::shared_ptr<void> body_share;  // of the bytes that all bodies may take

  // Frees the parsed body, to make room for bodies of other requests.
  void release_body() {
    body = {};
    body_share.reset();
  }
};

// The end of a request, for the log.
struct HttpOutcome {
  int status = 0;  // 499: the client disconnected before an answer began
  int64_t bytes = 0;
  double seconds = 0;
  std::string model;
  int64_t prompt_tokens = 0, new_tokens = 0;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// A request and its answer. Any thread may call the functions. The destructor closes the connection
// if there was no answer.
class Exchange {
 public:
  explicit Exchange(HttpRequest r) : request(std::move(r)) {}
  virtual ~Exchange() = default;

  HttpRequest request;

  virtual void answer(HttpResponse response) = 0;
  // Begins a streamed answer with `head`, which has no body. Only the first call has an effect.
  virtual void begin(HttpResponse head) = 0;
  virtual void send(const std::string& part) = 0;
  virtual void end() = 0;
  // Whether the client has disconnected or stopped reading, so that the answer can be aborted.
  virtual bool disconnected() const = 0;
  // Records the model and the number of tokens for the log; must be called before the answer ends.
  virtual void record(const std::string& /*model*/, int64_t /*prompt_tokens*/ = 0,
                      int64_t /*new_tokens*/ = 0) {}
};

struct HttpHandler {
  // Called after the header. A returned response refuses the request, whose body is not read.
  std::function<std::optional<HttpResponse>(HttpRequest&)> admit;
  // Handles a request. The handler must return soon; another thread may answer later.
  std::function<void(std::shared_ptr<Exchange>)> handle;
  // Returns the answer to a request that could not be read.
  std::function<HttpResponse(int status, const std::string& message)> refuse;
  std::function<void(const HttpRequest&, const HttpOutcome&)> done;
};

// What a server does meanwhile, and the steps by which it ends. The functions must not throw.
struct HttpEnding {
  std::function<void()> every_second = {};
  std::function<void()> stopping = {};  // first
  double notice_s = 0;                  // then requests are still accepted for this time
  double drain_s = 30;                  // then running ones have this time
  std::function<void()> ending = {};    // last; may answer the rest
};

struct HttpCore;  // keeps Boost out of this header

class HttpServer {
 public:
  // Opens the port; port 0 selects any free one. Throws a usage Error for an address that is not
  // numeric, a data Error for a port that cannot be opened.
  HttpServer(const std::string& address, int64_t port, const HttpLimits& limits,
             HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int64_t port() const;
  int64_t connections() const;

  // Serves with `threads` threads until `stop` is set.
  void run(const std::atomic<bool>& stop, int64_t threads, const HttpEnding& ending);

 private:
  std::unique_ptr<HttpCore> core_;
};

}  // namespace tost
