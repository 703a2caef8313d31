// /v1/chat/completions in OpenAI's form.
#include <utility>

#include "tost/io/parse_json.h"
#include "tost/serve/routes.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

class ChatAnswer : public TextAnswer {
 public:
  ChatAnswer(const Call& call, const ServedModel& model, size_t choices, bool stream)
      : TextAnswer(call, model, choices, stream) {}

  bool logprobs = false, include_usage = false;

 protected:
  void begin_stream() override {
    if (std::exchange(begun_, true)) return;
    for (size_t i = 0; i < choices_.size(); ++i) {
      send(chunk(i, {{"role", "assistant"}, {"content", ""}}, json(), json()));
    }
  }
  void stream_piece(size_t i, const std::string& piece,
                    const std::optional<TokenLogprob>& token) override {
    send(chunk(i, {{"content", piece}}, json(), token ? logprobs_of({*token}) : json()));
  }
  void stream_end(size_t i) override { send(chunk(i, json::object(), finish_reason(i), json())); }
  void finish_stream() override {
    if (include_usage) {
      auto last = object("chat.completion.chunk", json::array());
      last["usage"] = usage("prompt_tokens", "completion_tokens");
      send(last);
    }
    exchange_->send("data: [DONE]\n\n");
  }
  json whole() const override {
    json list = json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      list.push_back({{"index", i},
                      {"message", {{"role", "assistant"}, {"content", choices_[i].text}}},
                      {"finish_reason", finish_reason(i)},
                      {"logprobs", logprobs ? logprobs_of(choices_[i].tokens) : json()}});
    }
    auto result = object("chat.completion", list);
    result["usage"] = usage("prompt_tokens", "completion_tokens");
    return result;
  }

 private:
  json object(const char* kind, const json& choices) const {
    return {{"id", "chatcmpl-" + exchange_->request.id},
            {"object", kind},
            {"created", created_},
            {"model", model_.id},
            {"choices", choices}};
  }
  json chunk(size_t i, const json& delta, const json& reason, const json& probabilities) const {
    const json choice{
        {"index", i}, {"delta", delta}, {"finish_reason", reason}, {"logprobs", probabilities}};
    return object("chat.completion.chunk", json::array({choice}));
  }
  json token_json(int64_t id, double logprob) const {
    const auto piece = tokenizer_of(model_).piece(int32_t(id));
    json bytes = json::array();
    for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", piece}, {"logprob", logprob}, {"bytes", bytes}};
  }
  json logprobs_of(const std::vector<TokenLogprob>& tokens) const {
    json content = json::array();
    for (const auto& token : tokens) {
      auto entry = token_json(token.id, token.logprob);
      entry["top_logprobs"] = json::array();
      for (const auto& [id, value] : token.top) {
        entry["top_logprobs"].push_back(token_json(id, value));
      }
      content.push_back(entry);
    }
    return {{"content", content}};
  }

  bool begun_ = false;
};

void chat(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  const auto& form_of_roles = needed_template(call.app);
  const auto form = answer_form(fields, call.app);
  const auto field = fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  auto config = generate_config(fields, call.app, field, 256);
  const bool logprobs = fields.flag("logprobs", false);
  const auto alternatives = fields.count("top_logprobs", 0, 0, 20);
  const auto text = conversation(fields.take("messages"), form_of_roles);
  for (const char* name : {"tools", "functions"}) fields.neutral(name, {json::array()});
  fields.neutral("response_format", {json{{"type", "text"}}});
  for (const char* name : {"max_tokens", "store"}) fields.ignore(name);
  fields.finish();
  config.stop.insert(config.stop.end(), form_of_roles.stop.begin(), form_of_roles.stop.end());
  const auto answer = std::make_shared<ChatAnswer>(call, model, size_t(form.n), form.stream);
  answer->logprobs = logprobs;
  answer->include_usage = form.include_usage;
  std::vector<TextRequest> requests(size_t(form.n), TextRequest{});
  const auto prompt = encode_text(model, text + form_of_roles.reply);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = {.prompt = prompt,
                   .config = config,
                   .stream = i,
                   .logprobs = logprobs ? alternatives : -1,
                   .seconds = call.app.config.request_s,
                   .events = answer->events(i)};
  }
  answer->submit(std::move(requests));
}

}  // namespace

void add_chat_routes(std::vector<Route>& routes) {
  routes.push_back({"POST", "/v1/chat/completions", chat});
}

}  // namespace tost
