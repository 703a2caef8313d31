#include "tost/serve/text_api.h"

#include <ctime>
#include <random>
#include <utility>

#include "tost/io/parse_json.h"

namespace tost {

using nlohmann::json;

namespace {

constexpr size_t kMostStops = 16, kMostStopBytes = 1024;

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
  if (c.stop.size() > kMostStops || bytes > kMostStopBytes) {
    throw ApiError(400,
                   cat("'stop' holds ", c.stop.size(), " texts of ", bytes, " bytes; ", kMostStops,
                       " of ", kMostStopBytes, " in all are allowed."),
                   "stop");
  }
  c.seed =
      fields.has("seed") ? uint64_t(fields.count("seed", 0, INT64_MIN, INT64_MAX)) : any_seed();
  fields.ignore("seed");
  for (const char* name : {"presence_penalty", "frequency_penalty"}) fields.neutral(name, {0});
  fields.neutral("logit_bias", {json::object()});
  for (const char* name : {"user", "metadata", "service_tier"}) fields.ignore(name);
  check_generate(c);
  return c;
}

std::vector<std::vector<int64_t>> prompts_of(const json& value, const ServedModel& model,
                                             const std::string& field) {
  const auto refuse = [&field] {
    throw ApiError(
        400,
        cat("'", field, "' is a text, token ids, or a list of at most ", kMostPrompts, " of them."),
        field);
  };
  const auto ids_of = [&refuse](const json& list) {
    std::vector<int64_t> ids;
    for (const auto& id : list) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t(INT64_MAX)) refuse();
      ids.push_back(id.get<int64_t>());
    }
    return ids;
  };
  if (value.is_string()) return {encode_text(model, value.get<std::string>())};
  if (value.is_array() && !value.empty() && value[0].is_number()) return {ids_of(value)};
  if (!value.is_array() || value.size() > kMostPrompts) refuse();
  std::vector<std::vector<int64_t>> prompts;
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
  form.n = fields.count("n", 1, 1, app.config.most_texts);
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

std::vector<int64_t> encode_text(const ServedModel& model, const std::string& text) {
  const auto ids = tokenizer_of(model).encode(text);
  return {ids.begin(), ids.end()};
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
    if (!role.is_string() || !(content.is_string() || content.is_array())) refuse();
    std::string words = content.is_string() ? content.get<std::string>() : std::string();
    for (const auto& part : content.is_array() ? content : json::array()) {
      const auto piece = part.is_object() ? part.value("text", json()) : json();
      words += piece.is_string() ? piece.get<std::string>() : refuse();
    }
    text += form.message(role.get<std::string>(), words);
  }
  return text;
}

TextSession session_from(const ServedModel& model, const std::string& bytes,
                         const std::string& where) {
  const auto own = std::make_shared<std::string>(bytes);
  return model.language->format().read(parse_safetensors(own, where), where);
}

TextAnswer::TextAnswer(const Call& call, const ServedModel& model, size_t choices, bool stream)
    : exchange_(call.exchange),
      model_(model),
      stream_(stream),
      created_(int64_t(std::time(nullptr))),
      choices_(choices),
      open_(choices) {}

TextEvents TextAnswer::events(size_t i) {
  const auto self = shared_from_this();
  return {
      .piece = [self, i](const std::string& text,
                         const std::optional<TokenLogprob>& token) { self->piece(i, text, token); },
      .end = [self, i](TextEnd end) { self->end(i, std::move(end)); },
      .gone = [self] { return self->exchange_->gone(); }};
}

void TextAnswer::submit(std::vector<TextRequest> requests) {
  if (!model_.language->submit(std::move(requests))) throw queue_full();
}

void TextAnswer::piece(size_t i, const std::string& text,
                       const std::optional<TokenLogprob>& token) {
  auto& choice = choices_[i];
  choice.text += text;
  if (token) choice.tokens.push_back(*token);
  if (!stream_ || (text.empty() && !token)) return;
  exchange_->begin({.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}});
  begin_stream();
  stream_piece(i, text, token);
}

void TextAnswer::end(size_t i, TextEnd end) {
  try {
    if (on_end) on_end(end);
  } catch (...) {
    end.reason = "failed";
    end.error = current_error().message;
  }
  end.session = {};
  const bool failed = end.reason == "failed";
  const ApiError error(500, end.error);
  choices_[i].end = std::move(end);
  choices_[i].ended = true;
  exchange_->record(model_.id, choices_[i].end.prompt_tokens, choices_[i].end.new_tokens);
  --open_;
  if (!stream_) {
    if (failed) exchange_->answer(error_response(error));
    if (open_ == 0) exchange_->answer({.body = json_text(whole())});
    return;
  }
  exchange_->begin({.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}});
  begin_stream();
  failed ? exchange_->send("data: " + error_response(error).body + "\n\n") : stream_end(i);
  if (open_ > 0) return;
  finish_stream();
  exchange_->end();
}

void TextAnswer::send(const json& event, const char* name) const {
  std::string text = name != nullptr ? cat("event: ", name, "\n") : std::string();
  exchange_->send(text.append("data: ").append(json_text(event)).append("\n\n"));
}

json TextAnswer::usage(const char* in, const char* out) const {
  int64_t prompt = 0, cached = 0, fresh = 0;
  for (const auto& choice : choices_) {
    prompt += choice.end.prompt_tokens;
    cached += choice.end.cached_tokens;
    fresh += choice.end.new_tokens;
  }
  return {{in, prompt},
          {out, fresh},
          {"total_tokens", prompt + fresh},
          {cat(in, "_details"), {{"cached_tokens", cached}}}};
}

const char* TextAnswer::finish_reason(size_t i) const {
  return choices_[i].end.reason == "stop" ? "stop" : "length";
}

}  // namespace tost
