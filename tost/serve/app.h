// The models of a server, and the table that maps routes to functions.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tost/engine/vision_file.h"
#include "tost/io/image.h"
#include "tost/serve/fields.h"
#include "tost/serve/http.h"
#include "tost/serve/language_service.h"
#include "tost/serve/metrics.h"
#include "tost/serve/session_store.h"
#include "tost/serve/workers.h"

namespace tost {

struct AppConfig {
  std::string key;                   // that requests must show; empty: none
  std::vector<std::string> hosts;    // names in Host other than localhost and addresses
  std::vector<std::string> origins;  // sites whose pages may use the server
  std::optional<ChatTemplate> chat;
  int64_t most_new_tokens = 4096;  // of a text
  int64_t most_texts = 16;         // of a request
  double request_s = 300;
  int64_t workers = 4, queue = 256;  // threads of requests, and requests that wait for them
};

// An image classifier as a server needs it.
struct PictureModel {
  ModelInfo info;
  Precision precision = Precision::kFp32;
  // Maps images [count, channels, side, side] to logits [count, classes]. On one thread at a time.
  std::function<void(const float* images, int64_t count, float* logits)> logits;
  // What /v1/explain shows of a picture, on the thread of logits(); empty where it shows nothing.
  std::function<PictureMaps(PictureInput input)> explain = {};
};

// One image classifier and the thread that runs it.
class PictureService {
 public:
  PictureService(PictureModel picture_model, int64_t queue)
      : model(std::move(picture_model)), thread_(1, queue) {}
  // Accepts no more requests and runs those that wait. May be called more than once.
  void stop() { thread_.stop(); }
  // Runs `work`, which must not throw, on the model's thread. False where too many wait.
  bool run(std::function<void()> work) { return thread_.run(std::move(work)); }

  const PictureModel model;

 private:
  Workers thread_;
};

struct ServedModel {
  std::string id;
  std::unique_ptr<LanguageService> language;
  std::unique_ptr<PictureService> pictures;  // one of the two
};

struct Call;
struct Route;

class App {
 public:
  // The server refuses requests once `stop` is set.
  App(const AppConfig& config, const SessionLimits& sessions, const std::atomic<bool>& stop);
  ~App() { end(); }
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // Throws a usage Error for a model's name that is in use or that cannot be part of a path.
  void add(ServedModel model);
  const std::vector<ServedModel>& models() const { return models_; }
  // Finds the model that the field "model" names; by default the only model. Throws an ApiError.
  const ServedModel& language(const std::string& id) const;
  const ServedModel& pictures(const std::string& id) const;

  HttpHandler handler();
  bool draining() const { return stop_; }
  // Refuses all queued requests, ends all texts, and returns their sessions to the store.
  void end();
  bool ended() const { return ended_; }

  const AppConfig config;
  LogLines lines;
  Metrics metrics;
  SessionStore sessions;
  std::function<int64_t()> connections;  // for the metrics; may be empty
  Budget pixels;                         // of pictures from their decoding to their answer
  Workers decoders;                      // of pictures: texts do not wait for these

 private:
  std::optional<HttpResponse> admit(HttpRequest& request) const;
  void handle(std::shared_ptr<Exchange> exchange);
  void run(const Route& route, const Call& received);
  void log(const HttpRequest& request, const HttpOutcome& outcome);

  std::vector<ServedModel> models_;
  const std::atomic<bool>& stop_;
  std::atomic<bool> ended_{false};
  Workers workers_;
};

// The errors of a request if the queue is full, and if the server ends.
ApiError queue_full();
ApiError shutting_down();

// A request, and the data that its route's function needs.
struct Call {
  App& app;
  std::shared_ptr<Exchange> exchange;
  std::string argument;                           // what matched the route's '*'
  std::map<std::string, std::string> query = {};  // of the parameters that the route takes

  // The value of a parameter of the query; empty if the query does not have it.
  std::string parameter(const std::string& name) const {
    const auto found = query.find(name);
    return found == query.end() ? std::string() : found->second;
  }
  const HttpRequest& request() const { return exchange->request; }
  void answer(const nlohmann::json& body) const;
  void fail(const ApiError& error) const;
  // Runs `work` unless the client has left; an exception of `work` becomes the answer.
  template <class Work>
  void attempt(const Work& work) const {
    if (exchange->disconnected()) return;
    try {
      if (app.ended()) throw shutting_down();
      work();
    } catch (...) {
      fail(current_error());
    }
  }
};

// Runs `work` on the thread of `service`; an exception becomes the answer. Throws queue_full().
template <class Service, class Work>
void run_on(Service& service, const Call& call, Work work) {
  const bool taken = service.run([call, work] { call.attempt(work); });
  if (!taken) throw call.app.ended() ? shutting_down() : queue_full();
}

// Routes run on request workers, so they may parse, tokenize and wait for a lock.
struct Route {
  const char* method;
  const char* path;  // '*' matches one part
  void (*run)(const Call& call);
  std::vector<std::string> query = {};  // parameters it takes; others are refused
  bool open = false;                    // answered without the key, for any query
  bool at_once = open;                  // answered by the I/O thread: it takes no time
};
// The routes that each source of this folder defines.
using Routes = std::vector<Route>;
Routes server_routes();
Routes completion_routes();
Routes response_routes();
Routes session_routes();
Routes token_routes();
Routes picture_routes();
Routes page_routes();

// The decoded parameters of a query. Throws an ApiError for an unknown or repeated parameter.
std::map<std::string, std::string> query_of(const std::string& query,
                                            const std::vector<std::string>& known);

// Compares two texts in a time that does not depend on the position of a difference.
bool same_secret(const std::string& a, const std::string& b);
// Whether the headers Host and Origin are allowed, against attacks through browsers.
bool host_allowed(const std::string& host, const std::vector<std::string>& names);
bool origin_allowed(const std::string& origin, const std::string& host);

}  // namespace tost
