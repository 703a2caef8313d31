// /v1/sessions: states that clients keep, fork, carry away and bring back.
#include "tost/io/parse_json.h"
#include "tost/serve/routes.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

json to_json(const SessionInfo& info) {
  json object = TOST_MEMBERS(info, id, model, bytes, created, in_memory, saved, busy);
  object["object"] = "session";
  object["position"] = info.position < 0 ? json() : json(info.position);
  return object;
}

// Reads a prompt and nothing more; the stored session continues from there.
class NewSession : public TextAnswer {
 public:
  NewSession(const Call& call, const ServedModel& model) : TextAnswer(call, model, 1, false) {}
  json info;

 protected:
  void stream_piece(size_t, const std::string&, const std::optional<TokenLogprob>&) override {}
  void stream_end(size_t) override {}
  void finish_stream() override {}
  json whole() const override { return info; }
};

void create(const Call& call) {
  App& app = call.app;
  Fields fields(call.request().body);
  const auto from = fields.text("from", {});
  if (!from.empty()) {
    fields.finish();
    return call.answer(to_json(app.sessions.info(app.sessions.fork(from))));
  }
  const auto& model = app.language(fields.text("model", {}));
  const auto prompt = fields.needed_text("prompt");
  fields.finish();
  const auto answer = std::make_shared<NewSession>(call, model);
  answer->on_end = [&app, &model, raw = answer.get()](TextEnd& end) {
    if (end.reason == "failed") return;
    if (end.session.state.position == 0) throw ApiError(503, "The prompt was not read.");
    const auto id = app.sessions.add("sess", model.id, end.session.state.position,
                                     model.language->format().bytes(end.session));
    raw->info = to_json(app.sessions.info(id));
  };
  std::vector<TextRequest> one(1);
  one[0].prompt = encode_text(model, prompt);
  one[0].config.max_tokens = 0;
  one[0].keep = true;
  one[0].seconds = app.config.request_s;
  one[0].events = answer->events(0);
  answer->submit(std::move(one));
}

void list(const Call& call) {
  json data = json::array();
  for (const auto& info : call.app.sessions.list()) data.push_back(to_json(info));
  call.answer({{"object", "list"}, {"data", data}});
}

void show(const Call& call) {
  call.answer(to_json(call.app.sessions.info(call.argument)));
}

void remove(const Call& call) {
  call.app.sessions.remove(call.argument);
  call.answer({{"id", call.argument}, {"object", "session"}, {"deleted", true}});
}

void fork(const Call& call) {
  call.answer(to_json(call.app.sessions.info(call.app.sessions.fork(call.argument))));
}

void save(const Call& call) {
  call.app.sessions.save(call.argument);
  show(call);
}

void export_state(const Call& call) {
  const auto info = call.app.sessions.info(call.argument);
  const auto bytes = call.app.sessions.read(call.argument, info.model);
  call.exchange->answer({.type = "application/octet-stream", .body = *bytes});
}

// A file from a stranger: checked as a whole, and written again from what was read.
void import_state(const Call& call) {
  const auto& model = call.app.language(call.parameter("model"));
  const auto session = session_from(model, call.request().body, "The body");
  const auto id = call.app.sessions.add("sess", model.id, session.state.position,
                                        model.language->format().bytes(session));
  call.answer(to_json(call.app.sessions.info(id)));
}

}  // namespace

const std::vector<Route>& session_routes() {
  static const std::vector<Route> routes = [] {
    std::vector<Route> all{{"POST", "/v1/sessions", create},
                           {"GET", "/v1/sessions", list},
                           {"POST", "/v1/sessions/import", import_state, {"model"}},
                           {"GET", "/v1/sessions/*", show},
                           {"DELETE", "/v1/sessions/*", remove},
                           {"POST", "/v1/sessions/*/fork", fork},
                           {"POST", "/v1/sessions/*/save", save},
                           {"GET", "/v1/sessions/*/state", export_state}};
    add_response_routes(all);
    return all;
  }();
  return routes;
}

}  // namespace tost
