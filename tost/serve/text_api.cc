#include "tost/serve/text_api.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "tost/io/parse_json.h"

namespace tost {

using nlohmann::json;

namespace {

constexpr size_t kMaxStops = 16, kMaxStopBytes = 1024;

uint64_t any_seed() {
  std::random_device system;
  return (uint64_t(system()) << 32) | system();
}

}  // namespace

GenerateConfig generate_config(Fields& fields, const App& app, const std::string& tokens,
                               int64_t otherwise) {
  GenerateConfig c;
  c.max_tokens = fields.count(tokens, std::min(otherwise, app.config.most_new_tokens), 0,
                              app.config.most_new_tokens);
  c.sampling.temperature = fields.number("temperature", 1, 0, 100);
  c.sampling.top_p = fields.number("top_p", 1, 0, 1);
  c.sampling.top_k = fields.count("top_k", 0, 0, 1 << 30);
  c.sampling.min_p = fields.number("min_p", 0, 0, 1);
  c.sampling.repetition_penalty = fields.number("repetition_penalty", 1, 0.01, 100);
  c.ignore_end = fields.flag("ignore_eos", false);
  c.stop = fields.texts("stop");
  size_t bytes = 0;
  for (const auto& stop : c.stop) bytes += stop.size();
  if (c.stop.size() > kMaxStops || bytes > kMaxStopBytes) {
    throw ApiError(400,
                   cat("'stop' holds ", c.stop.size(), " texts of ", bytes, " bytes; ", kMaxStops,
                       " of ", kMaxStopBytes, " in all are allowed."),
                   "stop");
  }
  c.seed =
      fields.has("seed") ? uint64_t(fields.count("seed", 0, INT64_MIN, INT64_MAX)) : any_seed();
  fields.ignore("seed");
  for (const char* name : {"presence_penalty", "frequency_penalty"}) fields.neutral(name, {0});
  fields.neutral("logit_bias", {json::object()});
  for (const char* name : {"user", "metadata", "service_tier", "safety_identifier",
                           "prompt_cache_key", "prompt_cache_retention"}) {
    fields.ignore(name);
  }
  check_generate(c);
  return c;
}

std::vector<std::vector<int32_t>> prompts_of(const json& value, const ServedModel& model,
                                             const std::string& field) {
  const auto refuse = [&field] {
    throw ApiError(
        400,
        cat("'", field, "' is a text, token ids, or a list of at most ", kMaxPrompts, " of them."),
        field);
  };
  const auto ids_of = [&refuse](const json& list) {
    std::vector<int32_t> ids;
    for (const auto& id : list) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t(INT32_MAX)) refuse();
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  };
  if (value.is_string()) return {encode_text(model, value.get<std::string>())};
  if (value.is_array() && !value.empty() && value[0].is_number()) return {ids_of(value)};
  if (!value.is_array() || value.size() > kMaxPrompts) refuse();
  std::vector<std::vector<int32_t>> prompts;
  for (const auto& item : value) {
    if (!item.is_string() && !item.is_array()) refuse();
    prompts.push_back(item.is_string() ? encode_text(model, item.get<std::string>())
                                       : ids_of(item));
  }
  return prompts;
}

AnswerForm answer_form(Fields& fields, const App& app) {
  AnswerForm form;
  form.stream = fields.flag("stream", false);
  const auto& options = fields.take("stream_options");
  form.include_usage = options.is_object() && options.value("include_usage", json()) == true;
  form.n = size_t(fields.count("n", 1, 1, app.config.most_texts));
  return form;
}

const Tokenizer& tokenizer_of(const ServedModel& model) {
  const auto& tokenizer = model.language->info().tokenizer;
  if (tokenizer == nullptr) {
    throw ApiError(400, cat("Model '", model.id, "' has no tokenizer, so it reads no text."),
                   "model");
  }
  return *tokenizer;
}

std::vector<int32_t> encode_text(const ServedModel& model, const std::string& text) {
  return tokenizer_of(model).encode(text);
}

const ChatTemplate& needed_template(const App& app) {
  if (app.config.chat) return *app.config.chat;
  fail_request(
      "This server has no chat template, and a base model knows no roles; start it with "
      "--chat-template FILE, or use /v1/completions.");
}

std::string conversation(const json& messages, const ChatTemplate& form) {
  const auto refuse = []() -> std::string {
    throw ApiError(400, "'messages' is a list of objects with the texts 'role' and 'content'.",
                   "messages");
  };
  if (!messages.is_array() || messages.empty()) refuse();
  std::string text;
  for (const auto& message : messages) {
    if (!message.is_object()) refuse();
    const auto role = message.value("role", json()), content = message.value("content", json());
    if (!role.is_string() || !(content.is_null() || content.is_string() || content.is_array())) {
      refuse();
    }
    const auto calls = message.value("tool_calls", json());
    if (content.is_null() && (role != "assistant" || !(calls.is_null() || calls.empty()))) refuse();
    std::string words = content.is_string() ? content.get<std::string>() : std::string();
    for (const auto& part : content.is_array() ? content : json::array()) {
      const auto piece = part.is_object() ? part.value("text", json()) : json();
      words += piece.is_string() ? piece.get<std::string>() : refuse();
    }
    const bool developer = role == "developer" && form.roles.count("developer") == 0;
    text += form.message(developer ? "system" : role.get<std::string>(), words);
  }
  return text;
}

TextSession session_from(const ServedModel& model, const std::string& bytes,
                         const std::string& where) {
  const auto copy = std::make_shared<std::string>(bytes);
  return model.language->format().read(parse_arrays(copy, where), where);
}

TextAnswer::TextAnswer(const Call& call, const ServedModel& model, size_t choices,
                       const AnswerForm& form)
    : app_(call.app),
      exchange_(call.exchange),
      model_(model),
      form_(form),
      created_(int64_t(std::time(nullptr))),
      choices_(choices),
      open_(choices) {}

void TextAnswer::continue_session(const std::string& id, int64_t from, TextRequest& request) {
  const auto bytes = app_.sessions.take(id, model_.id);
  lease_ = std::make_unique<Lease>(app_.sessions, id);
  request.session = session_from(model_, *bytes, cat("Session '", id, "'"));
  request.keep = true;
  const int64_t position = request.session->state.position;
  if (from >= 0 && position != from) {
    throw ApiError(409, cat("Session '", id, "' is at position ", position, ", not at ", from, "."),
                   "from_position", "session_moved");
  }
}

std::string TextAnswer::store_as(const std::string& kind, TextRequest& request) {
  const auto id = app_.sessions.reserve(kind, model_.id, model_.language->format().least_bytes());
  lease_ = std::make_unique<Lease>(app_.sessions, id);
  request.keep = true;
  return id;
}

void TextAnswer::submit(std::vector<TextRequest> requests) {
  const auto self = shared_from_this();
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].seconds = app_.config.request_s;
    requests[i].events = {
        .piece = [self, i](const std::string& text, const std::optional<TokenLogprob>& token,
                           int64_t position) { self->piece(i, text, token, position); },
        .end = [self, i](TextEnd end) { self->end(i, std::move(end)); },
        .disconnected = [self] { return self->exchange_->disconnected(); }};
  }
  if (!model_.language->submit(std::move(requests))) {
    throw app_.ended() ? shutting_down() : queue_full();
  }
}

// Whether the server aborted the text before its first token.
bool TextAnswer::unwritten(const Choice& choice) const {
  return choice.end.reason == "interrupted" && choice.end.new_tokens == 0;
}

void TextAnswer::open_stream() {
  if (std::exchange(open_stream_, true)) return;
  exchange_->begin({.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}});
  begin_stream();
}

void TextAnswer::piece(size_t i, const std::string& text, const std::optional<TokenLogprob>& token,
                       int64_t position) {
  auto& choice = choices_[i];
  choice.text += text;
  choice.position = position;
  if (token) choice.tokens.push_back(*token);
  if (!form_.stream || (text.empty() && !token)) return;
  open_stream();
  stream_piece(i, text, token);
}

void TextAnswer::store(const TextSession& session) {
  auto bytes = model_.language->format().bytes(session, notes());
  app_.sessions.give_back(std::exchange(lease_->id, {}), session.state.position, std::move(bytes));
}

void TextAnswer::end(size_t i, TextEnd end) {
  auto& choice = choices_[i];
  choice.end = std::move(end);
  --open_;
  try {
    const auto session = std::move(choice.end.session);
    if (lease_ != nullptr && choice.end.reason != "failed" && !unwritten(choice)) store(session);
  } catch (...) {
    choice.end.reason = "failed";
    choice.end.error = current_error().message;
  }
  lease_.reset();
  exchange_->record(model_.id, choice.end.prompt_tokens, choice.end.new_tokens);
  const auto error = error_response({500, choice.end.error});
  const bool failed = choice.end.reason == "failed";
  if (failed && !form_.stream) exchange_->answer(error);
  if (form_.stream && !unwritten(choice)) {
    open_stream();
    failed ? exchange_->send("data: " + error.body + "\n\n") : stream_end(i);
  }
  if (open_ > 0) return;
  if (std::all_of(choices_.begin(), choices_.end(), [this](auto& c) { return unwritten(c); })) {
    return exchange_->answer(error_response({503, choice.end.error}));
  }
  if (!form_.stream) return exchange_->answer({.body = json_text(whole())});
  for (size_t k = 0; k < choices_.size(); ++k) {
    if (unwritten(choices_[k])) stream_end(k);
  }
  finish_stream();
  exchange_->end();
}

void TextAnswer::send(const json& event, const char* name) const {
  std::string text = name != nullptr ? cat("event: ", name, "\n") : std::string();
  exchange_->send(text.append("data: ").append(json_text(event)).append("\n\n"));
}

json TextAnswer::usage(const char* in, const char* out) const {
  int64_t prompt = 0, cached = 0, fresh = 0;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const auto& end = choices_[i].end;
    fresh += end.new_tokens;
    if (i % form_.n != 0) continue;  // the prompt that they share
    prompt += end.prompt_tokens;
    cached += end.cached_tokens;
  }
  return {{in, prompt},
          {out, fresh},
          {"total_tokens", prompt + fresh},
          {cat(in, "_details"), {{"cached_tokens", cached}}}};
}

const char* TextAnswer::finish_reason(size_t i) const {
  const auto& reason = choices_[i].end.reason;
  return reason == "stop" ? "stop" : reason == "length" ? "length" : "abort";
}

void ChoicesAnswer::send_choice(size_t i, json content, const json& reason,
                                const json& logprobs) const {
  content.update({{"index", i}, {"finish_reason", reason}, {"logprobs", logprobs}});
  send(object(json::array({content}), /*whole=*/false));
}

void ChoicesAnswer::stream_piece(size_t i, const std::string& piece,
                                 const std::optional<TokenLogprob>& token) {
  send_choice(i, content(piece, false), json(), token ? logprobs_of({*token}) : json());
}

void ChoicesAnswer::stream_end(size_t i) {
  send_choice(i, content({}, false), finish_reason(i), json());
}

void ChoicesAnswer::finish_stream() {
  if (form_.include_usage) {
    auto last = object(json::array(), /*whole=*/false);
    last["usage"] = usage("prompt_tokens", "completion_tokens");
    send(last);
  }
  exchange_->send("data: [DONE]\n\n");
}

json ChoicesAnswer::whole() const {
  json list = json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    list.push_back(content(choices_[i].text, true));
    list.back().update({{"index", i},
                        {"finish_reason", finish_reason(i)},
                        {"logprobs", form_.logprobs ? logprobs_of(choices_[i].tokens) : json()}});
  }
  auto result = object(list, /*whole=*/true);
  result["usage"] = usage("prompt_tokens", "completion_tokens");
  return result;
}

}  // namespace tost
