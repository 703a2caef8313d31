// The listener: accepts connections, makes room for them, and ends.
#include "tost/serve/http.h"

#include <cerrno>
#include <thread>

#include "tost/base/error.h"
#include "tost/base/parallel.h"
#include "tost/base/path.h"
#include "tost/serve/http_core.h"

namespace tost {

using Clock = std::chrono::steady_clock;

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

bool HttpCore::make_room(WaitingList& list, const Waiting* but) {
  const std::lock_guard lock(mutex);
  for (const auto& weak : list) {
    const auto connection = weak.lock();
    if (connection != nullptr && connection.get() != but && connection->close()) return true;
  }
  return false;
}

void HttpCore::close_idle() {
  while (make_room(idle)) {
  }
}

void HttpCore::keep_accepting() {
  if (accepting.exchange(true)) return;
  // A guard pointer resets `accepting` when the coroutine ends in any way.
  try {
    std::shared_ptr<void> alive(this, [](HttpCore* core) { core->accepting = false; });
    net::co_spawn(acceptor.get_executor(), accept(std::move(alive)), net::detached);
  } catch (const std::bad_alloc&) {
  }
}

net::awaitable<void> HttpCore::accept(std::shared_ptr<void>) {
  net::steady_timer pause(acceptor.get_executor());
  while (!draining) {
    bool failed = false;
    try {
      auto [error, socket] =
          co_await acceptor.async_accept(strands[next_strand++ % strands.size()], kResult);
      if (error == net::error::operation_aborted) break;
      failed = bool(error);  // no descriptors, or a client that disconnected already
      if (!failed) socket.non_blocking(true, error);
      if (failed) {
        make_room(idle);
      } else if (count >= limits.connections && !make_room(idle)) {
        static constexpr char kFull[] =
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
            "Connection: close\r\n\r\n";
        socket.send(net::buffer(kFull, sizeof kFull - 1), 0, error);
      } else {
        socket.set_option(tcp::no_delay(true), error);
        start_connection(*this, std::move(socket));
      }
    } catch (const std::exception&) {  // no memory for this connection
      failed = true;
    }
    if (!failed) continue;
    pause.expires_after(std::chrono::milliseconds(20));
    co_await pause.async_wait(kResult);
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

void HttpServer::run(const std::atomic<bool>& stop, int64_t threads, const HttpEnding& ending) {
  auto& io = core_->io;
  const auto work = net::make_work_guard(io);
  const auto pause = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  std::vector<std::thread> pool;
  const auto join = [&] {
    io.stop();
    for (auto& thread : pool) thread.join();
  };
  try {
    for (int64_t i = 0; i < threads; ++i) {
      pool.push_back(start_thread([&io] {
        while (!io.stopped()) {
          try {
            io.run();
          } catch (const std::exception&) {
            // No memory for one connection, which is closed; the others are served.
          }
        }
      }));
    }
  } catch (...) {  // no thread, or no memory for one
    join();
    throw;
  }
  // Restarts the acceptor, which an exception must not end.
  for (int64_t rounds = 1; rounds == 1 || !stop; ++rounds) {
    core_->keep_accepting();
    pause(200);
    if (rounds % 5 == 0 && ending.every_second) ending.every_second();
  }
  if (ending.stopping) ending.stopping();
  const auto notice = Clock::now() + seconds(ending.notice_s);
  for (; Clock::now() < notice; pause(20)) core_->keep_accepting();
  core_->draining = true;
  const auto close = [this] {
    error_code ignored;
    core_->acceptor.close(ignored);
  };
  for (bool posted = false; !posted;) {
    try {
      net::post(core_->acceptor.get_executor(), close);
      posted = true;
    } catch (const std::bad_alloc&) {
      pause(20);
    }
  }
  const auto wait = [&](double s) {
    for (const auto end = Clock::now() + seconds(s); core_->answering > 0 && Clock::now() < end;) {
      core_->close_idle();
      pause(10);
    }
    core_->close_idle();
  };
  wait(ending.drain_s);
  if (ending.ending) ending.ending();
  wait(1);
  join();
  close();  // if the threads have ended before they did so
}

}  // namespace tost
