// /v1/sessions: states that clients store, fork, download and upload.
#include <charconv>

#include "tost/io/parse_json.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr int64_t kListed = 100, kMaxListed = 1000;  // sessions of a page

json to_json(const SessionInfo& info) {
  json object = TOST_MEMBERS(info, id, model, bytes, created, in_memory, saved, busy);
  object["object"] = "session";
  object["position"] = info.position < 0 ? json() : json(info.position);
  object["expires_at"] = info.expires_at == 0 ? json() : json(info.expires_at);
  return object;
}

// Reads a prompt and stores the session at its end.
class NewSession : public TextAnswer {
 public:
  NewSession(const Call& call, const ServedModel& model) : TextAnswer(call, model, 1, {}) {}
  std::string id;

 protected:
  json whole() const override { return to_json(app_.sessions.info(id)); }
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
  std::vector<TextRequest> one(1);
  one[0].prompt = model.language->prompt(encode_text(model, prompt));
  one[0].config.max_tokens = 0;
  answer->id = answer->store_as("sess", one[0]);
  answer->submit(std::move(one));
}

// Answers with one page of the list of sessions, in the form of OpenAI's lists.
void list(const Call& call) {
  const auto text = call.parameter("limit");
  int64_t limit = kListed;
  const auto end = text.data() + text.size();
  if (!text.empty()) {
    const auto read = std::from_chars(text.data(), end, limit);
    if (read.ec != std::errc() || read.ptr != end) limit = 0;
  }
  if (limit < 1 || limit > kMaxListed) {
    throw ApiError(400, cat("'limit' is an integer from 1 to ", kMaxListed, "."), "limit");
  }
  const auto [page, more] = call.app.sessions.list(call.parameter("after"), limit);
  json data = json::array();
  for (const auto& info : page) data.push_back(to_json(info));
  call.answer({{"object", "list"},
               {"data", data},
               {"first_id", page.empty() ? json() : json(page.front().id)},
               {"last_id", page.empty() ? json() : json(page.back().id)},
               {"has_more", more}});
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
  const auto bytes = call.app.sessions.read(call.argument);
  call.exchange->answer({.type = "application/octet-stream", .body = *bytes});
}

// Imports an untrusted session: checks all values, and stores a file that is written from them.
void import_state(const Call& call) {
  const auto& model = call.app.language(call.parameter("model"));
  const auto session = session_from(model, call.request().body, "The body");
  const auto id = call.app.sessions.add("sess", model.id, session.state.position,
                                        model.language->format().bytes(session));
  call.answer(to_json(call.app.sessions.info(id)));
}

}  // namespace

Routes session_routes() {
  return {{"POST", "/v1/sessions", create},
          {"GET", "/v1/sessions", list, {"after", "limit"}},
          {"POST", "/v1/sessions/import", import_state, {"model"}},
          {"GET", "/v1/sessions/*", show},
          {"DELETE", "/v1/sessions/*", remove},
          {"POST", "/v1/sessions/*/fork", fork},
          {"POST", "/v1/sessions/*/save", save},
          {"GET", "/v1/sessions/*/state", export_state}};
}

}  // namespace tost
