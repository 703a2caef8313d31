// /v1/completions in OpenAI's form.
#include "tost/io/parse_json.h"
#include "tost/serve/routes.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

class CompletionAnswer : public ChoicesAnswer {
 public:
  using ChoicesAnswer::ChoicesAnswer;
  std::string session;

 protected:
  json content(const std::string& text, bool) const override { return {{"text", text}}; }
  json object(const json& choices, bool) const override {
    json result{{"id", "cmpl-" + exchange_->request.id},
                {"object", "text_completion"},
                {"created", created_},
                {"model", model_.id},
                {"choices", choices}};
    if (!session.empty()) {
      result.update({{"session", session}, {"position", choices_[0].position}});
    }
    return result;
  }
  json logprobs_of(const std::vector<TokenLogprob>& tokens) const override {
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

 private:
  static std::string json_key(const std::string& piece) {
    return parse_json(json_text(json(piece)), "a token").get<std::string>();
  }
};

void complete(const Call& call) {
  Fields fields(call.request().body);
  const auto& model = call.app.language(fields.text("model", {}));
  tokenizer_of(model);
  const auto session = fields.text("session", {});
  const auto from = fields.count("from_position", -1, 0, INT64_MAX);
  auto form = answer_form(fields, call.app);
  const auto config = generate_config(fields, call.app, "max_tokens", 16);
  const auto logprobs = fields.count("logprobs", -1, 0, 20);
  const auto& prompt = fields.take("prompt");
  fields.neutral("best_of", {1, form.n});
  fields.neutral("echo", {false});
  fields.neutral("suffix", {""});
  fields.finish();
  form.logprobs = logprobs >= 0;
  if (prompt.is_null() && session.empty()) {
    throw ApiError(400, "'prompt' is missing; a text or token ids are expected.", "prompt");
  }
  if (from >= 0 && session.empty()) {
    throw ApiError(400, "'from_position' is for a request with 'session'.", "from_position");
  }
  std::vector<Prompt> prompts(prompt.is_null() ? 1 : 0);
  if (!prompt.is_null()) {
    for (auto& ids : prompts_of(prompt, model, "prompt")) {
      prompts.push_back(model.language->prompt(std::move(ids)));
    }
  }
  const size_t count = prompts.size() * form.n;
  const auto most = size_t(session.empty() ? model.language->most_texts() : 1);
  if (count == 0 || count > most) {
    throw ApiError(400,
                   cat("The request is for ", count, " texts; 1 to ", most, " are expected",
                       session.empty() ? "." : " where a session continues."),
                   "prompt");
  }
  const auto answer = std::make_shared<CompletionAnswer>(call, model, count, form);
  answer->session = session;
  std::vector<TextRequest> requests(count);
  for (size_t i = 0; i < count; ++i) {
    requests[i].prompt = prompts[i / form.n];
    requests[i].config = config;
    requests[i].stream = i % form.n;
    requests[i].logprobs = logprobs;
  }
  if (!session.empty()) answer->continue_session(session, from, requests[0]);
  answer->submit(std::move(requests));
}

}  // namespace

void add_completion_routes(std::vector<Route>& routes) {
  routes.push_back({"POST", "/v1/completions", complete});
}

}  // namespace tost
