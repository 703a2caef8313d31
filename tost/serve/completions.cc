// /v1/completions and /v1/chat/completions in OpenAI's form.
#include "tost/base/utf8.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

// For `n` texts of each prompt; `logprobs` as in TextRequest.
std::vector<TextRequest> requests_for(const std::vector<Prompt>& prompts, size_t n,
                                      const GenerateConfig& config, int64_t logprobs) {
  std::vector<TextRequest> requests(prompts.size() * n);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = prompts[i / n];
    requests[i].config = config;
    requests[i].stream = i % n;
    requests[i].logprobs = logprobs;
  }
  return requests;
}

class CompletionAnswer : public ChoicesAnswer {
 public:
  using ChoicesAnswer::ChoicesAnswer;
  std::string session;

 protected:
  json content(const std::string& text, bool) const override { return {{"text", text}}; }
  json object(const json& choices, bool) const override {
    json result = named("cmpl-", "text_completion", choices);
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
  // Tokens of parts of characters need keys of their own: OpenAI writes their bytes.
  static std::string json_key(const std::string& piece) {
    if (first_invalid_utf8(piece) == piece.size()) return piece;
    std::string key = "bytes:";
    for (const unsigned char c : piece) {
      key += cat("\\x", "0123456789abcdef"[c / 16], "0123456789abcdef"[c % 16]);
    }
    return key;
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
  auto requests = requests_for(prompts, form.n, config, logprobs);
  if (!session.empty()) answer->continue_session(session, from, requests[0]);
  answer->submit(std::move(requests));
}

class ChatAnswer : public ChoicesAnswer {
 public:
  using ChoicesAnswer::ChoicesAnswer;

 protected:
  void begin_stream() override {
    for (size_t i = 0; i < choices_.size(); ++i) {
      send_choice(i, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, json(), json());
    }
  }
  json content(const std::string& text, bool whole) const override {
    if (whole) return {{"message", {{"role", "assistant"}, {"content", text}}}};
    return {{"delta", text.empty() ? json::object() : json{{"content", text}}}};
  }
  json object(const json& choices, bool whole) const override {
    return named("chatcmpl-", whole ? "chat.completion" : "chat.completion.chunk", choices);
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
  std::make_shared<ChatAnswer>(call, model, form.n, form)
      ->submit(requests_for({prompt}, form.n, config, form.logprobs ? alternatives : -1));
}

}  // namespace

Routes completion_routes() {
  return {{"POST", "/v1/completions", complete}, {"POST", "/v1/chat/completions", chat}};
}

}  // namespace tost
