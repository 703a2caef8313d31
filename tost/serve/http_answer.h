// The bytes of an answer that wait to be written, shared by the handler and the connection. Free of
// Boost.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "tost/serve/http.h"

namespace tost {

class Answer : public Exchange {
 public:
  // `chunked`: the client understands chunks. `wake` notifies the connection of new bytes.
  Answer(HttpRequest r, bool chunked, bool keep_alive, std::function<void()> wake)
      : Exchange(std::move(r)),
        chunked_(chunked),
        keep_alive_(keep_alive),
        wake_(std::move(wake)) {}

  void answer(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void send(const std::string& part) override;
  void end() override;
  bool disconnected() const override { return disconnected_; }
  void record(const std::string& model, int64_t prompt_tokens, int64_t new_tokens) override;

  void leave() { disconnected_ = true; }
  // Must be called when the handler has released the exchange.
  void abandon();
  // Moves the waiting bytes to `bytes`; returns true if the answer is then complete.
  bool take(std::string& bytes);

  bool keep_alive() const { return keep_alive_; }
  HttpOutcome outcome() const;

 private:
  void start(const HttpResponse& response);

  const bool chunked_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<bool> keep_alive_, disconnected_{false};
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  HttpOutcome outcome_;  // without its time
  std::string waiting_;
  bool streaming_ = false, ended_ = false;
};

}  // namespace tost
