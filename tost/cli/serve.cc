// tost serve: serves models over HTTP, with a page for browsers.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/text.h"
#include "tost/base/thread.h"
#include "tost/cli/commands.h"
#include "tost/cli/options.h"
#include "tost/cli/program.h"
#include "tost/engine/shipped_models.h"
#include "tost/io/parse_json.h"
#include "tost/kinds/language/file.h"
#include "tost/kinds/vision/engine.h"
#include "tost/serve/app.h"
#include "tost/store/quantized_file.h"

namespace tost {
namespace {

constexpr int64_t kMaxTemplateBytes = 1 << 20, kMaxKeyBytes = 4096;

struct ServeFlags {
  RunOptions run;
  std::vector<std::string> models;
  std::string host = "127.0.0.1", key_file, chat_template, precision, tokenizer;
  int64_t port = 8080, io_threads = 4;
  double notice_s = 0, drain_s = 30;
  HttpLimits http;
  ServiceLimits service;
  SessionLimits sessions;
  std::string session_folder;
  AppConfig app;
};

// A model in the form NAME=FILE, or FILE; the default for NAME is the file's name without
// extension.
struct NamedModel {
  std::string id, path;
};
NamedModel named_model(const std::string& text) {
  const size_t sign = text.find('=');
  if (sign != std::string::npos && !path_exists(text)) {
    return {text.substr(0, sign), model_path(text.substr(sign + 1))};
  }
  const std::string file = model_path(text);
  auto path = absolute_path(file).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return {(is_folder(path) ? path.filename() : path.stem()).string(), file};
}

void serve_language(const ServeFlags& o, const std::string& path, Metrics& metrics,
                    ServedModel& model) {
  auto loaded = load_language_file(path);
  if (loaded.info.tokenizer == nullptr) choose_tokenizer({.name = o.tokenizer}, loaded);
  const auto precision = o.precision.empty() ? loaded.precision : precision_from_name(o.precision);
  model.language =
      std::make_unique<LanguageService>(std::move(loaded), precision, o.service, metrics);
}

void serve_pictures(const ServeFlags& o, const std::string& path, Metrics&, ServedModel& model) {
  auto loaded = load_model_file(path);
  const bool engine = VisionEngine::supports(*loaded.model);
  const auto precision =
      chosen_precision(o.precision, loaded.precision, classifier_precisions(engine));
  model.pictures = std::make_unique<PictureService>(std::move(loaded), precision, o.service.queue,
                                                    o.service.threads);
}

constexpr struct {
  std::string_view kind;
  void (*load)(const ServeFlags&, const std::string& path, Metrics&, ServedModel&);
} kServed[] = {{"language", serve_language}, {"vision", serve_pictures}};

ServedModel load_served(const ServeFlags& o, const NamedModel& named, Metrics& metrics) {
  ServedModel model{.id = named.id, .language = nullptr, .pictures = nullptr};
  const auto kind = model_kind(named.path);
  for (const auto& row : kServed) {
    if (row.kind != kind) continue;
    row.load(o, named.path, metrics, model);
    return model;
  }
  fail_usage("'", named.path, "' holds a ", kind,
             " model; language models and image classifiers are served.");
}

void raise_descriptor_limit(int64_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = rlim_t(connections) + 256;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Reads the API key from a file or the environment, because other users can see flags.
std::string read_key(const std::string& file) {
  std::string key;
  if (!file.empty()) {
    key = read_file(file, kMaxKeyBytes);
    while (!key.empty() && std::isspace(static_cast<unsigned char>(key.back()))) key.pop_back();
    if (key.empty()) fail_usage("'", file, "' holds no key; write one line into it.");
  } else if (const char* set = std::getenv("TOST_API_KEY"); set != nullptr) {
    key = set;
    if (key.empty()) {
      fail_usage(
          "the variable TOST_API_KEY is empty; set it to a key, or unset it to serve without.");
    }
  }
  return key;
}

void warn_of_public_access(const ServeFlags& o, LogLines& log) {
  const bool here = starts_with(o.host, "127.") || o.host == "::1";
  if (here || !o.app.key.empty()) return;
  log.add(json_text(nlohmann::json{{"warning", cat("Everybody who can reach ", o.host,
                                                   " may use this server, because it has no "
                                                   "key; give it one with --key-file.")}}));
}

void log_failure(LogLines& log, const std::exception& error) {
  log.add(json_text(nlohmann::json{{"error", error.what()}}));
}

// A thread that writes idle sessions to the folder.
class Spiller {
 public:
  explicit Spiller(App& app) {
    thread_ = start_thread([this, &app] {
      std::unique_lock lock(mutex_);
      std::string last_error;  // a full disk fails every second
      while (!wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; })) {
        try {
          app.sessions.spill_idle();
          last_error.clear();
        } catch (const std::exception& error) {
          if (std::exchange(last_error, error.what()) == error.what()) continue;
          log_failure(app.lines, error);
        }
      }
    });
  }
  ~Spiller() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Spiller(const Spiller&) = delete;
  Spiller& operator=(const Spiller&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

std::vector<std::string> served_models(const std::vector<std::string>& names) {
  if (!names.empty()) return names;
  const auto shipped = shipped_names();
  if (shipped.empty()) {
    fail_usage("no model is given, and this program has no shipped models next to it; name a run ",
               "folder or a model file.");
  }
  return shipped;
}

void check_limits(const ServeFlags& o) {
  for (const auto& [name, value] : {std::pair{"--connections", o.http.connections},
                                    {"--max-header", o.http.header_bytes},
                                    {"--max-body", o.http.body_bytes},
                                    {"--max-bodies", o.http.bodies_bytes},
                                    {"--max-tokens", o.app.most_new_tokens},
                                    {"--max-texts", o.app.most_texts},
                                    {"--max-prompt", o.service.prompt_tokens},
                                    {"--max-prompts", o.service.all_prompt_tokens}}) {
    if (value < 1) fail_usage(name, " is ", value, "; it must be at least 1.");
  }
  for (const auto& [name, value] : {std::pair{"--header-seconds", o.http.header_s},
                                    {"--body-seconds", o.http.body_s},
                                    {"--write-seconds", o.http.write_s},
                                    {"--request-seconds", o.app.request_s}}) {
    if (!(value > 0)) fail_usage(name, " is ", value, "; it must be above 0.");
  }
  for (const auto& [name, value] : {std::pair{"--idle-seconds", o.sessions.idle_s},
                                    {"--session-seconds", o.sessions.age_s},
                                    {"--lame-duck-seconds", o.notice_s},
                                    {"--drain-seconds", o.drain_s}}) {
    if (!(value >= 0)) fail_usage(name, " is ", value, "; it must not be below 0.");
  }
  for (const auto& origin : o.app.origins) {
    const size_t colon = origin.find("://");
    if (colon != std::string::npos && origin.find_first_of("/*", colon + 3) == std::string::npos &&
        origin.size() > colon + 3) {
      continue;
    }
    fail_usage("--allow-origin is '", origin, "'; it is a site as in https://models.example.");
  }
}

void run_serve(ServeFlags& o) {
  if (o.port > 65'535) fail_usage("--port is ", o.port, "; it must be from 0 to 65535.");
  if (o.service.batch < 1 || o.service.batch > 1024) {
    fail_usage("--batch is ", o.service.batch, "; it must be from 1 to 1024.");
  }
  check_limits(o);
  set_threads(o.run.threads);
  o.service.threads = o.run.threads;
  o.app.key = read_key(o.key_file);
  if (!o.chat_template.empty()) {
    o.app.chat = chat_template_from(read_file(o.chat_template, kMaxTemplateBytes),
                                    cat("'", o.chat_template, "'"));
  }
  o.sessions.folder = o.session_folder;
  App app(o.app, o.sessions, *stop_flag());
  for (const auto& text : served_models(o.models)) {
    app.add(load_served(o, named_model(text), app.metrics));
  }
  raise_descriptor_limit(o.http.connections);
  HttpServer server(o.host, o.port, o.http, app.handler());
  warn_of_public_access(o, app.lines);
  app.connections = [&server] { return server.connections(); };
  const std::string shown_host =
      o.host.find(':') == std::string::npos ? o.host : "[" + o.host + "]";
  const std::string url = cat("http://", shown_host, ":", server.port(), "/");
  std::cout << (o.run.json ? json_text(nlohmann::json{{"url", url}}) : "Serving at " + url)
            << std::endl;
  const Spiller spiller(app);
  // Saves idle sessions first, so that a client that hangs cannot prevent the save.
  const auto save = [&app] {
    try {
      app.sessions.save_all();
    } catch (const std::exception& error) {
      log_failure(app.lines, error);
    }
  };
  server.run(*stop_flag(), std::max<int64_t>(1, o.io_threads),
             {.stopping = save, .notice_s = o.notice_s, .drain_s = o.drain_s, .ending = [&app] {
                app.end();
              }});
  app.sessions.save_all();
}

void add_limits(CLI::App& command, ServeFlags& o) {
  const auto add = [&command](const char* name, auto& value, const char* help) {
    command.add_option(name, value, help)->capture_default_str();
  };
  add("--batch", o.service.batch, "Texts of a model that are written at a time");
  add("--queue", o.service.queue, "Texts that wait; more are refused with 429");
  add("--prefix-bytes", o.service.prefix_bytes, "Of states after beginnings of prompts; 0: none");
  add("--max-prompt", o.service.prompt_tokens, "Tokens of a prompt");
  add("--max-prompts", o.service.all_prompt_tokens, "Of all prompts of a model at a time");
  add("--max-tokens", o.app.most_new_tokens, "Most new tokens of a text");
  add("--max-texts", o.app.most_texts, "Most texts of a prompt (n)");
  add("--request-seconds", o.app.request_s, "A text ends after this time");
  add("--max-body", o.http.body_bytes, "Bytes of a request's body");
  add("--max-header", o.http.header_bytes, "Bytes of its header");
  add("--max-bodies", o.http.bodies_bytes, "Bytes of all bodies at a time");
  add("--connections", o.http.connections, "Open at a time");
  add("--header-seconds", o.http.header_s, "For a whole header to arrive");
  add("--body-seconds", o.http.body_s, "For a whole body to arrive");
  add("--write-seconds", o.http.write_s, "For a client to read what is written to it");
  add("--lame-duck-seconds", o.notice_s,
      "Once the server is told to end: /ready says so, and requests are still taken");
  add("--drain-seconds", o.drain_s, "Then, for running requests");
  add("--session-bytes", o.sessions.bytes, "Of sessions in memory");
  add("--max-sessions", o.sessions.count, "In memory and in the folder");
  add("--idle-seconds", o.sessions.idle_s, "Then a session leaves memory for the folder");
  add("--session-seconds", o.sessions.age_s, "Without use; then a session is removed. 0: never");
}

}  // namespace

void add_serve_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Serve models by HTTP, as OpenAI's API, and a page to look at");
  auto options = std::make_shared<ServeFlags>();
  auto& o = *options;
  command->add_option(
      "models", o.models,
      "Run folders, checkpoint folders, .safetensors, .pth or .pt files, or shipped models "
      "(default: all of these); NAME=FILE gives a name");
  command->add_option("--host", o.host, "Address to listen at; 0.0.0.0: all")
      ->capture_default_str();
  command->add_option("--port", o.port, "0: any free one")->capture_default_str();
  command->add_option("--key-file", o.key_file,
                      "Holds the key that requests must show (or the variable TOST_API_KEY does)");
  command->add_option(
      "--allow-host", o.app.hosts,
      "Name of this server in the header Host, if a proxy forwards to it; may be repeated");
  command->add_option("--allow-origin", o.app.origins,
                      "Site whose pages may use this server, as https://models.example; may be "
                      "repeated");
  command->add_option("--chat-template", o.chat_template,
                      "JSON file that makes conversations texts; without it there is no chat");
  command->add_option("--sessions", o.session_folder, "Folder where sessions outlive the server");
  command->add_option(
      "--precision", o.precision,
      "Of the weights: " + list_of(all_precisions(), " or ") + " (default: the file's)");
  add_tokenizer_option(*command, o.tokenizer);
  add_limits(*command, o);
  command->add_option("--threads", o.run.threads, "Compute threads of each model; 0: all cores")
      ->capture_default_str();
  command->add_flag("--json", o.run.json, "The address as one JSON object on stdout");
  add_example(*command, "  tost serve lm run --port 8080 --sessions sessions");
  command->callback([options] { run_serve(*options); });
}

}  // namespace tost
