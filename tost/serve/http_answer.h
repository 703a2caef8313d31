// What a request's handler and its connection share: bytes that wait to be written. Free of Boost.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "tost/serve/http.h"

namespace tost {

class Answer : public Exchange {
 public:
  // chunked: whether the client knows chunks. `wake` tells the connection that there is something.
  Answer(HttpRequest r, bool chunked, bool keep_alive, std::function<void()> wake)
      : Exchange(std::move(r)),
        chunked_(chunked),
        keep_alive_(keep_alive),
        wake_(std::move(wake)) {}

  void answer(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void send(const std::string& part) override;
  void end() override;
  bool gone() const override { return gone_; }

  void leave() { gone_ = true; }
  // The handler let go of it.
  void abandon();
  // Takes what is to be written; true where nothing will follow.
  bool take(std::string& bytes);

  bool keep_alive() const { return keep_alive_; }
  int status() const { return status_; }
  int64_t written() const { return written_; }

 private:
  void start(const HttpResponse& response);

  const bool chunked_;
  std::atomic<bool> keep_alive_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::string waiting_;
  bool streaming_ = false, ended_ = false;
  std::atomic<bool> gone_{false};
  std::atomic<int> status_{0};
  std::atomic<int64_t> written_{0};
};

}  // namespace tost
