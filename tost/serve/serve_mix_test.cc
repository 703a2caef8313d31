// Everything at once: texts, sessions that are forked, deleted, evicted and imported, clients that
// leave, and the end in the middle. For ThreadSanitizer, and for the answers.
#include <gtest/gtest.h>

#include <future>

#include "tests/testing/temp_dir.h"
#include "tost/base/random.h"
#include "tost/io/parse_json.h"
#include "tost/io/tokenizers.h"
#include "tost/kinds/language/engine.h"
#include "tost/kinds/language/file.h"
#include "tost/serve/app.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr int kClients = 6, kRequests = 60;

ServedText mixed_model() {
  LanguageConfig c;
  c.vocab = 257;
  c.block = 600;
  c.dim = 32;
  c.depth = 2;
  c.heads = 2;
  c.mixer = "tssa";
  c.positions = "none";
  auto model = make_language_model(c);
  model->eval();
  return {text_engine(*model, Precision::kFp32), {.config = c, .tokenizer = make_byte_tokenizer()}};
}

// A client that may leave before its answer has ended.
class TestExchange : public Exchange {
 public:
  TestExchange(HttpRequest r, bool leaves)
      : Exchange(std::move(r)), disconnected_(false), leaves_(leaves) {}
  void answer(HttpResponse response) override {
    set(std::move(response));
    end();
  }
  void begin(HttpResponse head) override { set(std::move(head)); }
  void send(const std::string&) override {
    if (leaves_) disconnected_ = true;
  }
  void end() override { finish(); }
  bool disconnected() const override { return disconnected_; }
  void leave() { disconnected_ = true; }
  // The handler has let go of it.
  void finish() {
    if (!ended_.exchange(true)) done_.set_value();
  }
  HttpResponse wait() {
    done_.get_future().wait();
    const std::lock_guard lock(mutex_);
    return response_;
  }

 private:
  void set(HttpResponse response) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(answered_, true)) response_ = std::move(response);
  }
  std::mutex mutex_;
  bool answered_ = false;
  HttpResponse response_{.status = 0};
  std::atomic<bool> disconnected_, ended_{false};
  const bool leaves_;
  std::promise<void> done_;
};

class Mix {
 public:
  explicit Mix(App& app) : app_(app) {}

  void client(uint64_t seed) {
    Random random(seed, 1);
    for (int i = 0; i < kRequests; ++i) {
      one(random);
      ++requests_;
    }
  }
  int requests() const { return requests_; }
  std::map<int, int> statuses() const { return statuses_; }

 private:
  HttpResponse ask(Random& random, const std::string& method, const std::string& path,
                   const std::string& body) {
    HttpRequest request{.method = method, .path = path, .body = body};
    if (const size_t mark = path.find('?'); mark != std::string::npos) {
      request.query = path.substr(mark + 1);
      request.path = path.substr(0, mark);
    }
    const bool leaves = random.below(6) == 0;
    const auto received = std::make_shared<TestExchange>(std::move(request), leaves);
    app_.handler().handle(
        std::shared_ptr<Exchange>(received.get(), [received](Exchange*) { received->finish(); }));
    if (leaves) received->leave();
    auto response = received->wait();
    const std::lock_guard lock(mutex_);
    if (!leaves) ++statuses_[response.status];
    return response;
  }
  std::string session(Random& random) {
    const std::lock_guard lock(mutex_);
    return ids_.empty() ? "sess-none" : ids_[size_t(random.below(int64_t(ids_.size())))];
  }
  void add_session(const HttpResponse& response) {
    if (response.status != 200 || response.body.empty()) return;
    const auto id = parse_json(response.body, "an answer").at("id").get<std::string>();
    const std::lock_guard lock(mutex_);
    ids_.push_back(id);
  }
  void one(Random& random) {
    const std::string text(size_t(1 + random.below(300)), char('a' + random.below(26)));
    const auto tokens = 1 + random.below(8);
    const bool stream = random.below(2) == 0;
    const auto path = "/v1/sessions/" + session(random);
    switch (random.below(8)) {
      case 0:
      case 1:
        return add_session(ask(random, "POST", "/v1/sessions", json_text(json{{"prompt", text}})));
      case 2:
        ask(random, "POST", "/v1/completions",
            json_text(
                json{{"session", path.substr(13)}, {"max_tokens", tokens}, {"stream", stream}}));
        return;
      case 3:
        return add_session(ask(random, "POST", path + "/fork", ""));
      case 4:
        ask(random, "DELETE", path, "");
        return;
      case 5: {
        const auto state = ask(random, "GET", path + "/state", "");
        return add_session(ask(random, "POST", "/v1/sessions/import?model=mixed", state.body));
      }
      case 6:
        ask(random, "GET", "/v1/sessions", "");
        ask(random, "GET", "/metrics", "");
        return;
      default:
        ask(random, "POST", "/v1/completions",
            json_text(
                json{{"prompt", text}, {"max_tokens", tokens}, {"n", 2}, {"stream", stream}}));
    }
  }

  App& app_;
  std::atomic<int> requests_{0};
  std::mutex mutex_;
  std::vector<std::string> ids_;
  std::map<int, int> statuses_;
};

TEST(ServeMixSlow, EveryRequestIsAnsweredUntilTheEnd) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const testing::TempDir folder;
    const std::atomic<bool> stop{false};
    App app({}, {.folder = folder.path() / "s", .bytes = 20'000, .idle_s = 0}, stop);
    app.add({.id = "mixed",
             .language = std::make_unique<LanguageService>(
                 mixed_model(), ServiceLimits{.batch = 3, .queue = 8, .prefix_bytes = 20'000},
                 app.metrics),
             .pictures = nullptr});
    Mix mix(app);
    std::atomic<bool> ended{false};
    auto spills = std::async(std::launch::async, [&] {
      while (!ended) app.sessions.spill_idle();
    });
    std::vector<std::future<void>> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.push_back(std::async(std::launch::async,
                                   [&mix, seed, c] { mix.client(seed * 100 + uint64_t(c)); }));
    }
    Random random(seed, 0);
    const auto end_at = int(random.below(kClients * kRequests));
    while (mix.requests() < end_at) std::this_thread::yield();
    app.end();
    for (auto& client : clients) client.get();
    ended = true;
    spills.get();
    app.sessions.save_all();
    for (const auto& [status, count] : mix.statuses()) {
      EXPECT_TRUE(status == 200 || status == 400 || status == 404 || status == 409 ||
                  status == 429 || status == 503)
          << status << ": " << count;
    }
  }
}

}  // namespace
}  // namespace tost
