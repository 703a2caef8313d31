// /v1/completions in OpenAI's form.
#include "tost/io/parse_json.h"
#include "tost/serve/routes.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

class CompletionAnswer : public TextAnswer {
 public:
  CompletionAnswer(const Call& call, const ServedModel& model, size_t choices, bool stream)
      : TextAnswer(call, model, choices, stream) {}

  bool logprobs = false, include_usage = false;
  std::string session;

 protected:
  void stream_piece(size_t i, const std::string& piece,
                    const std::optional<TokenLogprob>& token) override {
    json choice{{"index", i}, {"text", piece}, {"finish_reason", json()}, {"logprobs", json()}};
    if (token) choice["logprobs"] = logprobs_of({*token});
    send(object(json::array({choice})));
  }
  void stream_end(size_t i) override {
    const json choice{
        {"index", i}, {"text", ""}, {"finish_reason", finish_reason(i)}, {"logprobs", json()}};
    send(object(json::array({choice})));
  }
  void finish_stream() override {
    if (include_usage) {
      auto last = object(json::array());
      last["usage"] = usage("prompt_tokens", "completion_tokens");
      send(last);
    }
    exchange_->send("data: [DONE]\n\n");
  }
  json whole() const override {
    json list = json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      list.push_back({{"index", i},
                      {"text", choices_[i].text},
                      {"finish_reason", finish_reason(i)},
                      {"logprobs", logprobs ? logprobs_of(choices_[i].tokens) : json()}});
    }
    auto result = object(list);
    result["usage"] = usage("prompt_tokens", "completion_tokens");
    return result;
  }

 private:
  json object(const json& choices) const {
    json result{{"id", "cmpl-" + exchange_->request.id},
                {"object", "text_completion"},
                {"created", created_},
                {"model", model_.id},
                {"choices", choices}};
    if (!session.empty()) result["session"] = session;
    return result;
  }
  json logprobs_of(const std::vector<TokenLogprob>& tokens) const {
    const auto& tokenizer = tokenizer_of(model_);
    json texts = json::array(), values = json::array(), tops = json::array();
    for (const auto& token : tokens) {
      texts.push_back(tokenizer.piece(int32_t(token.id)));
      values.push_back(token.logprob);
      json top = json::object();
      for (const auto& [id, value] : token.top) {
        top[json_key(tokenizer.piece(int32_t(id)))] = value;
      }
      tops.push_back(top);
    }
    return {{"tokens", texts}, {"token_logprobs", values}, {"top_logprobs", tops}};
  }
  static std::string json_key(const std::string& piece) {
    return parse_json(json_text(json(piece)), "a token").get<std::string>();
  }
};

// Gives a session that was taken back, unless its end did.
struct SessionLease {
  SessionLease(App& a, std::string name) : app(a), id(std::move(name)) {}
  ~SessionLease() {
    if (!id.empty()) app.sessions.give_back(id);
  }
  SessionLease(const SessionLease&) = delete;
  SessionLease& operator=(const SessionLease&) = delete;
  App& app;
  std::string id;
};

// Lets request continue session `id`, and stores where it ends.
void continue_session(const Call& call, const ServedModel& model, const std::string& id,
                      TextRequest& request, TextAnswer& answer) {
  App& app = call.app;
  const auto bytes = app.sessions.take(id, model.id);
  const auto lease = std::make_shared<SessionLease>(app, id);
  request.session = session_from(model, *bytes, cat("Session '", id, "'"));
  request.keep = true;
  answer.on_end = [&app, &model, lease](TextEnd& end) {
    if (end.reason == "failed") return;
    auto fresh = model.language->format().bytes(end.session);
    app.sessions.give_back(std::exchange(lease->id, {}), end.session.state.position,
                           std::move(fresh));
  };
}

void complete(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  tokenizer_of(model);
  const auto session = fields.text("session", {});
  const auto form = answer_form(fields, call.app);
  const auto config = generate_config(fields, call.app, "max_tokens", 16);
  const auto logprobs = fields.count("logprobs", -1, 0, 20);
  const auto& prompt = fields.take("prompt");
  fields.neutral("best_of", {1, form.n});
  fields.neutral("echo", {false});
  fields.neutral("suffix", {""});
  fields.finish();
  if (prompt.is_null() && session.empty()) {
    throw ApiError(400, "'prompt' is missing; a text or token ids are expected.", "prompt");
  }
  const auto prompts = prompt.is_null() ? std::vector<std::vector<int64_t>>{{}}
                                        : prompts_of(prompt, model, "prompt");
  const size_t count = prompts.size() * size_t(form.n);
  if (count == 0 || int64_t(count) > call.app.config.most_texts * int64_t(kMostPrompts) ||
      (!session.empty() && count != 1)) {
    throw ApiError(400,
                   cat("The request is for ", count, " texts",
                       session.empty() ? "" : ", where a session continues one", "."),
                   "prompt");
  }
  const auto answer = std::make_shared<CompletionAnswer>(call, model, count, form.stream);
  answer->logprobs = logprobs >= 0;
  answer->include_usage = form.include_usage;
  answer->session = session;
  std::vector<TextRequest> requests(count);
  for (size_t i = 0; i < count; ++i) {
    auto& r = requests[i];
    r.prompt = prompts[i / size_t(form.n)];
    r.config = config;
    r.stream = i % size_t(form.n);
    r.logprobs = logprobs;
    r.seconds = call.app.config.request_s;
    if (!session.empty()) continue_session(call, model, session, r, *answer);
    r.events = answer->events(i);
  }
  answer->submit(std::move(requests));
}

}  // namespace

void add_completion_routes(std::vector<Route>& routes) {
  routes.push_back({"POST", "/v1/completions", complete});
}

}  // namespace tost
