#include "tost/serve/app.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <sstream>

#include "tost/base/machine.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"

namespace tost {

using nlohmann::json;

namespace {

constexpr int64_t kMaxPixels = 1'200'000'000, kDecoders = 2;

// The part of `path` that matches the '*' of the pattern; nothing if the path does not match.
std::optional<std::string> fits(const std::string& path, const std::string& pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return path == pattern ? std::optional("") : std::nullopt;
  const std::string before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (path.size() <= before.size() + after.size() || !starts_with(path, before) ||
      !ends_with(path, after)) {
    return std::nullopt;
  }
  auto part = path.substr(before.size(), path.size() - before.size() - after.size());
  return part.find('/') == std::string::npos ? std::optional(part) : std::nullopt;
}

const Routes& all_routes() {
  static const Routes routes = [] {
    Routes all;
    for (const auto part : {server_routes, completion_routes, response_routes, session_routes,
                            token_routes, picture_routes, page_routes}) {
      for (auto& route : part()) all.push_back(std::move(route));
    }
    return all;
  }();
  return routes;
}

struct Found {
  const Route* route = nullptr;
  std::string argument, methods;  // methods: those that the path has
};

Found find_route(const HttpRequest& request) {
  Found found;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : all_routes()) {
    auto argument = fits(request.path, route.path);
    if (!argument) continue;
    if (method == route.method) return {&route, std::move(*argument), {}};
    found.methods += (found.methods.empty() ? "" : ", ") + std::string(route.method);
  }
  return found;
}

// Decodes %XX in a part of a query. A '%' without two hexadecimal digits is unchanged.
std::string percent_decoded(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      plain += char(byte);
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

bool is_address(const std::string& host) {
  if (!host.empty() && host.front() == '[') return host.find(']') != std::string::npos;
  return !host.empty() && host.find_first_not_of("0123456789.") == std::string::npos;
}

std::string without_port(const std::string& host) {
  const size_t colon = host.rfind(':');
  const bool port = colon != std::string::npos && colon + 1 < host.size() &&
                    host.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  return to_lower(port ? host.substr(0, colon) : host);
}

template <class Has>
const ServedModel& find_model(const std::vector<ServedModel>& models, const std::string& id,
                              const char* kind, const Has& has) {
  const ServedModel* only = nullptr;
  std::vector<std::string> known;
  for (const auto& model : models) {
    if (model.id == id) {
      if (has(model)) return model;
      throw ApiError(400, cat("Model '", id, "' is not ", kind, "."), "model");
    }
    known.push_back(model.id);
    if (has(model)) only = &model;
  }
  const auto of_kind = std::count_if(models.begin(), models.end(), has);
  if (id.empty() && of_kind == 1) return *only;
  if (id.empty() && of_kind > 1) {
    throw ApiError(400, cat("'model' is missing; there are: ", join(known, ", "), "."), "model");
  }
  if (id.empty()) throw ApiError(404, cat("This server has no model that is ", kind, "."), "model");
  throw ApiError(404,
                 cat("There is no model ", shown(id, 60), "; there are: ", join(known, ", "), "."),
                 "model", "model_not_found");
}

}  // namespace

std::map<std::string, std::string> query_of(const std::string& query,
                                            const std::vector<std::string>& known) {
  std::map<std::string, std::string> values;
  std::istringstream parts(query);
  for (std::string part; std::getline(parts, part, '&');) {
    if (part.empty()) continue;
    const size_t sign = std::min(part.find('='), part.size());
    const auto name = percent_decoded(part.substr(0, sign));
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail_request("The query has the parameter ", shown(name, 60), "; this path takes ",
                   known.empty() ? "none" : join(known, ", "), ".");
    }
    if (!values.emplace(name, percent_decoded(part.substr(std::min(sign + 1, part.size()))))
             .second) {
      fail_request("The query has the parameter '", name, "' twice; give it once.");
    }
  }
  return values;
}

bool same_secret(const std::string& a, const std::string& b) {
  unsigned char different = a.size() != b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    const auto other = i < a.size() ? static_cast<unsigned char>(a[i]) : 0xFF;
    different |= static_cast<unsigned char>(other ^ static_cast<unsigned char>(b[i]));
  }
  return different == 0;
}

bool host_allowed(const std::string& host, const std::vector<std::string>& names) {
  const auto name = without_port(host);
  return name == "localhost" || is_address(name) ||
         std::any_of(names.begin(), names.end(),
                     [&name](const std::string& other) { return to_lower(other) == name; });
}

bool origin_allowed(const std::string& origin, const std::string& host) {
  if (origin.empty()) return true;
  const size_t colon = origin.find("://");
  return colon != std::string::npos && to_lower(origin.substr(colon + 3)) == to_lower(host);
}

ApiError queue_full() {
  return {429, "Too many requests wait; try again later.", {}, "queue_full"};
}

void Call::fail(const ApiError& error) const {
  if (error.code == "queue_full") ++app.metrics.refused;
  try {
    exchange->answer(error_response(error));
  } catch (const std::bad_alloc&) {
    // Ignores the exception, because the destruction of the request closes the connection.
  }
}

void Call::answer(const json& body) const {
  exchange->answer({.body = json_text(body)});
}

ApiError shutting_down() {
  return {503, "The server is shutting down."};
}

App::App(const AppConfig& c, const SessionLimits& s, const std::atomic<bool>& stop)
    : config(c),
      lines(STDERR_FILENO),
      sessions(s),
      pixels(kMaxPixels),
      decoders(kDecoders, c.queue),
      stop_(stop),
      workers_(c.workers, c.queue) {}

void App::end() {
  ended_ = true;
  workers_.stop();
  decoders.stop();
  for (auto& model : models_) {
    if (model.language != nullptr) model.language->stop();
    if (model.pictures != nullptr) model.pictures->stop();
  }
}

void App::add(ServedModel model) {
  const auto& id = model.id;
  const bool plain = !id.empty() && id.size() <= 100 && id.front() != '.' &&
                     std::all_of(id.begin(), id.end(), [](unsigned char c) {
                       return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                     });
  if (!plain) {
    fail_usage("A model cannot be served as ", shown(id, 60),
               "; give it a name of letters, digits, '-', '_' and '.', as in NAME=FILE.");
  }
  for (const auto& other : models_) {
    if (other.id == id) {
      fail_usage("Two models would be served as '", id, "'; name one of them, as in NAME=FILE.");
    }
  }
  models_.push_back(std::move(model));
}

const ServedModel& App::language(const std::string& id) const {
  return find_model(models_, id, "a language model",
                    [](const ServedModel& m) { return m.language != nullptr; });
}

const ServedModel& App::pictures(const std::string& id) const {
  return find_model(models_, id, "an image classifier",
                    [](const ServedModel& m) { return m.pictures != nullptr; });
}

std::optional<HttpResponse> App::admit(HttpRequest& request) const {
  if (!host_allowed(request.host, config.hosts)) {
    return error_response(
        {403, cat("The host ", shown(request.host, 60),
                  " is not this server's; if it is, allow it ", "with --allow-host.")});
  }
  if (!origin_allowed(request.origin, request.host)) {
    const auto& known = config.origins;
    if (std::find(known.begin(), known.end(), request.origin) == known.end()) {
      return error_response(
          {403, cat("Pages of ", shown(request.origin, 60),
                    " may not use this server; if they may, allow them with --allow-origin.")});
    }
    request.allow_origin = request.origin;
    if (request.method == "OPTIONS") {  // a browser's preflight request
      return HttpResponse{
          .headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                      {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
                      {"Access-Control-Max-Age", "600"}}};
    }
  }
  const auto found = find_route(request);
  if (found.route == nullptr && found.methods.empty()) {
    return error_response({404, cat("There is nothing at ", shown(request.path, 100), ".")});
  }
  if (found.route == nullptr) {
    auto response = error_response({405, cat(shown(request.path, 100), " takes ", found.methods,
                                             ", not ", shown(request.method, 20), ".")});
    response.headers.emplace_back("Allow", found.methods);
    return response;
  }
  const bool shows_key = same_secret(request.authorization, "Bearer " + config.key);
  if (!found.route->open && !config.key.empty() && !shows_key) {
    return error_response({401,
                           "The key is missing or wrong; send it as 'Authorization: Bearer "
                           "KEY'.",
                           {},
                           "invalid_api_key"});
  }
  return std::nullopt;
}

void App::handle(std::shared_ptr<Exchange> exchange) {
  auto found = find_route(exchange->request);
  const Call call{*this, std::move(exchange), std::move(found.argument)};
  if (found.route->at_once) return run(*found.route, call);
  if (!workers_.run([this, route = found.route, call] { run(*route, call); })) {
    call.fail({503, "Too many requests wait to be read; try again later.", {}, "queue_full"});
  }
}

void App::run(const Route& route, const Call& received) {
  received.attempt([&] {
    Call call = received;
    if (!route.open) call.query = query_of(call.request().query, route.query);
    route.run(call);
  });
  received.exchange->request.release_body();
}

void App::log(const HttpRequest& request, const HttpOutcome& outcome) {
  const auto found = find_route(request);
  metrics.add_request(found.route != nullptr ? found.route->path : "other", outcome.status,
                      outcome.seconds);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  json line{
      {"time", double(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) * 1e-3},
      {"id", request.id},
      {"client", request.client},
      {"method", escaped(request.method, 20)},
      {"path", escaped(request.path, 200)},
      {"status", outcome.status},
      {"bytes", outcome.bytes},
      {"seconds", outcome.seconds}};
  if (!outcome.model.empty()) {
    line.update(TOST_MEMBERS(outcome, model, prompt_tokens, new_tokens));
  }
  lines.add(json_text(line));
}

HttpHandler App::handler() {
  return {.admit = [this](HttpRequest& request) { return admit(request); },
          .handle = [this](std::shared_ptr<Exchange> e) { handle(std::move(e)); },
          .refuse =
              [](int status, const std::string& message) {
                return error_response({status, message});
              },
          .done = [this](const HttpRequest& request,
                         const HttpOutcome& outcome) { log(request, outcome); }};
}

namespace {

void health(const Call& call) {
  call.answer({{"status", "ok"}});
}

void ready(const Call& call) {
  if (call.app.draining()) throw shutting_down();
  call.answer({{"status", "ready"}});
}

json model_json(const ServedModel& model) {
  json object{{"id", model.id}, {"object", "model"}, {"created", 0}, {"owned_by", "tost"}};
  if (model.language != nullptr) {
    const auto& c = model.language->info().config;
    object.update(TOST_MEMBERS(c, heads, dim, vocab));
    object.update({{"kind", "language"},
                   {"precision", model.language->precision()},
                   {"context", c.positions == "learned" ? json(c.block) : json()},
                   {"layers", c.depth},
                   {"explains", model.language->text().explains}});
  } else {
    const PictureModel& m = model.pictures->model;
    object.update({{"kind", "vision"},
                   {"precision", m.precision},
                   {"classes", m.info.classes},
                   {"size", m.info.preprocess.size},
                   {"explains", m.explain != nullptr}});
  }
  return object;
}

void list_models(const Call& call) {
  json data = json::array();
  for (const auto& model : call.app.models()) data.push_back(model_json(model));
  call.answer({{"object", "list"}, {"data", data}});
}

void show_model(const Call& call) {
  for (const auto& model : call.app.models()) {
    if (model.id == call.argument) return call.answer(model_json(model));
  }
  call.app.language(call.argument);  // reports that there is none
}

void show_metrics(const Call& call) {
  App& app = call.app;
  double waiting = 0, running = 0, prompt_tokens = 0;
  for (const auto& model : app.models()) {
    if (model.language == nullptr) continue;
    waiting += double(model.language->waiting());
    running += double(model.language->running());
    prompt_tokens += double(model.language->prompt_tokens());
  }
  Metrics::Gauges gauges{
      {"tost_waiting_texts", {"Texts that wait for a place.", waiting}},
      {"tost_running_texts", {"Texts that are read or written.", running}},
      {"tost_held_prompt_tokens", {"Of prompts that are held.", prompt_tokens}},
      {"tost_sessions", {"Stored sessions.", double(app.sessions.count())}},
      {"tost_session_bytes", {"Of them in memory.", double(app.sessions.bytes_in_memory())}},
      {"tost_log_lines_dropped", {"Lines that nobody read in time.", double(app.lines.dropped())}},
      {"tost_resident_bytes", {"Memory of the process.", double(resident_bytes())}}};
  if (app.connections) {
    gauges["tost_connections"] = {"Open connections.", double(app.connections())};
  }
  call.exchange->answer(
      {.type = "text/plain; version=0.0.4; charset=utf-8", .body = app.metrics.text(gauges)});
}

}  // namespace

Routes server_routes() {
  return {{"GET", "/health", health, {}, true},
          {"GET", "/ready", ready, {}, true},
          {"GET", "/metrics", show_metrics, {}, false, true},
          {"GET", "/v1/models", list_models},
          {"GET", "/v1/models/*", show_model}};
}

}  // namespace tost
