// /v1/chat/completions in OpenAI's form.
#include <utility>

#include "tost/io/parse_json.h"
#include "tost/serve/routes.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

class ChatAnswer : public ChoicesAnswer {
 public:
  using ChoicesAnswer::ChoicesAnswer;

 protected:
  void begin_stream() override {
    if (std::exchange(begun_, true)) return;
    for (size_t i = 0; i < choices_.size(); ++i) {
      send_choice(i, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, json(), json());
    }
  }
  json content(const std::string& text, bool whole) const override {
    if (whole) return {{"message", {{"role", "assistant"}, {"content", text}}}};
    return {{"delta", text.empty() ? json::object() : json{{"content", text}}}};
  }
  json object(const json& choices, bool whole) const override {
    return {{"id", "chatcmpl-" + exchange_->request.id},
            {"object", whole ? "chat.completion" : "chat.completion.chunk"},
            {"created", created_},
            {"model", model_.id},
            {"choices", choices}};
  }
  json logprobs_of(const std::vector<TokenLogprob>& tokens) const override {
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

 private:
  json token_json(int64_t id, double logprob) const {
    const auto piece = tokenizer_of(model_).piece(int32_t(id));
    json bytes = json::array();
    for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", piece}, {"logprob", logprob}, {"bytes", bytes}};
  }

  bool begun_ = false;
};

void chat(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  const auto& form_of_roles = needed_template(call.app);
  auto form = answer_form(fields, call.app);
  const auto field = fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  auto config = generate_config(fields, call.app, field, 256);
  form.logprobs = fields.flag("logprobs", false);
  const auto alternatives = fields.count("top_logprobs", 0, 0, 20);
  const auto text = conversation(fields.take("messages"), form_of_roles);
  for (const char* name : {"tools", "functions"}) fields.neutral(name, {json::array()});
  for (const char* name : {"tool_choice", "function_call"}) fields.neutral(name, {"none", "auto"});
  fields.neutral("response_format", {json{{"type", "text"}}});
  fields.neutral("modalities", {json::array({"text"})});
  for (const char* name :
       {"max_tokens", "store", "parallel_tool_calls", "reasoning_effort", "verbosity"}) {
    fields.ignore(name);
  }
  fields.finish();
  config.stop.insert(config.stop.end(), form_of_roles.stop.begin(), form_of_roles.stop.end());
  const auto prompt = model.language->prompt(encode_text(model, text + form_of_roles.reply));
  std::vector<TextRequest> requests(form.n);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = prompt;
    requests[i].config = config;
    requests[i].stream = i;
    requests[i].logprobs = form.logprobs ? alternatives : -1;
  }
  std::make_shared<ChatAnswer>(call, model, form.n, form)->submit(std::move(requests));
}

}  // namespace

void add_chat_routes(std::vector<Route>& routes) {
  routes.push_back({"POST", "/v1/chat/completions", chat});
}

}  // namespace tost
