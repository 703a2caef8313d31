// tost serve: serves models over HTTP, with a page for browsers.
#include <cstdlib>
#include <iostream>
#include <utility>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/path.h"
#include "tost/base/posix.h"
#include "tost/base/text.h"
#include "tost/cli/model_commands.h"
#include "tost/cli/program.h"
#include "tost/engine/shipped_models.h"
#include "tost/io/parse_json.h"

namespace tost {
namespace {

constexpr int64_t kMaxTemplateBytes = 1 << 20, kMaxKeyBytes = 4096;

struct ServeFlags {
  RunOptions run;
  std::vector<std::string> models;
  std::string host = "127.0.0.1", key_file, chat_template;
  ModelChoice choice;  // of every model, but for its path
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

std::vector<std::string> served_models(const std::vector<std::string>& names) {
  if (!names.empty()) return names;
  const auto shipped = shipped_names();
  if (shipped.empty()) {
    fail_usage("no model is given, and this program has no shipped models next to it; name a run ",
               "folder or a model file.");
  }
  return shipped;
}

void check_origins(const std::vector<std::string>& origins) {
  for (const auto& origin : origins) {
    const size_t colon = origin.find("://");
    if (colon != std::string::npos && origin.find_first_of("/*", colon + 3) == std::string::npos &&
        origin.size() > colon + 3) {
      continue;
    }
    fail_usage("--allow-origin is '", origin, "'; it is a site as in https://models.example.");
  }
}

void run_serve(ServeFlags& o, FindServed find) {
  if (o.port > 65'535) fail_usage("--port is ", o.port, "; it must be from 0 to 65535.");
  if (o.service.batch < 1 || o.service.batch > 1024) {
    fail_usage("--batch is ", o.service.batch, "; it must be from 1 to 1024.");
  }
  check_origins(o.app.origins);
  set_threads(o.run.threads);
  o.app.key = read_key(o.key_file);
  if (!o.chat_template.empty()) {
    o.app.chat = chat_template_from(read_file(o.chat_template, kMaxTemplateBytes),
                                    cat("'", o.chat_template, "'"));
  }
  o.sessions.folder = o.session_folder;
  std::vector<std::pair<ServedModel, OpenServed>> found;
  for (const auto& text : served_models(o.models)) {
    auto named = named_model(text);
    o.choice.path = named.path;
    found.emplace_back(ServedModel{.id = named.id}, find(o.choice));
  }
  App app(o.app, o.sessions, *stop_flag());
  for (auto& [model, open] : found) {
    open(model, o.service, app.metrics);
    app.add(std::move(model));
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
  std::string last_error;  // a full disk fails every second
  const auto logged = [&](void (SessionStore::*work)()) {
    try {
      (app.sessions.*work)();
      last_error.clear();
    } catch (const std::exception& error) {
      if (std::exchange(last_error, error.what()) == error.what()) return;
      app.lines.add(json_text(nlohmann::json{{"error", error.what()}}));
    }
  };
  // Saves idle sessions first at the end, so that a client that hangs cannot prevent it.
  server.run(*stop_flag(), std::max<int64_t>(1, o.io_threads),
             {.every_second = [&] { logged(&SessionStore::spill_idle); },
              .stopping = [&] { logged(&SessionStore::save_all); },
              .notice_s = o.notice_s,
              .drain_s = o.drain_s,
              .ending = [&] { app.end(); }});
  app.sessions.save_all();
}

void add_limits(CLI::App& command, ServeFlags& o) {
  constexpr bool kSome = true;  // 0 is too little
  const auto add = [&command](const char* name, auto& value, const char* help, bool some = false) {
    add_value(command, name, value, help)
        ->check(CLI::Validator(
            [some](std::string& text) {
              const double given = std::strtod(text.c_str(), nullptr);
              return given > 0 || (!some && given == 0)
                         ? ""
                         : cat("'", text, "' is not ", some ? "above" : "at least", " 0.");
            },
            ""));
  };
  add("--batch", o.service.batch, "Texts of a model that are written at a time", kSome);
  add("--queue", o.service.queue, "Texts that wait; more are refused with 429");
  add("--prefix-bytes", o.service.prefix_bytes, "Of states after beginnings of prompts; 0: none");
  add("--max-prompt", o.service.prompt_tokens, "Tokens of a prompt", kSome);
  add("--max-prompts", o.service.all_prompt_tokens, "Of all prompts of a model at a time", kSome);
  add("--max-tokens", o.app.most_new_tokens, "Most new tokens of a text", kSome);
  add("--max-texts", o.app.most_texts, "Most texts of a prompt (n)", kSome);
  add("--request-seconds", o.app.request_s, "A text ends after this time", kSome);
  add("--max-body", o.http.body_bytes, "Bytes of a request's body", kSome);
  add("--max-header", o.http.header_bytes, "Bytes of its header", kSome);
  add("--max-bodies", o.http.bodies_bytes, "Bytes of all bodies at a time", kSome);
  add("--connections", o.http.connections, "Open at a time", kSome);
  add("--header-seconds", o.http.header_s, "For a whole header to arrive", kSome);
  add("--body-seconds", o.http.body_s, "For a whole body to arrive", kSome);
  add("--write-seconds", o.http.write_s, "For a client to read what is written to it", kSome);
  add("--lame-duck-seconds", o.notice_s,
      "Once the server is told to end: /ready says so, and requests are still taken");
  add("--drain-seconds", o.drain_s, "Then, for running requests");
  add("--session-bytes", o.sessions.bytes, "Of sessions in memory");
  add("--max-sessions", o.sessions.count, "In memory and in the folder");
  add("--idle-seconds", o.sessions.idle_s, "Then a session leaves memory for the folder");
  add("--session-seconds", o.sessions.age_s, "Without use; then a session is removed. 0: never");
}

}  // namespace

void add_serve_command(CLI::App& app, FindServed find) {
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
      "--precision", o.choice.precision,
      "Of the weights: " + list_of(all_precisions(), " or ") + " (default: the file's)");
  add_tokenizer_option(*command, o.choice.tokenizer);
  command->add_flag("!--no-explain", o.choice.explain, "Without /v1/explain");
  add_limits(*command, o);
  command->add_option("--threads", o.run.threads, "Compute threads of each model; 0: all cores")
      ->capture_default_str();
  command->add_flag("--json", o.run.json, "The address as one JSON object on stdout");
  add_example(*command, "  tost serve lm run --port 8080 --sessions sessions");
  command->callback([options, find] { run_serve(*options, find); });
}

}  // namespace tost
