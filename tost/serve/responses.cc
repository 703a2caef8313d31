// /v1/responses: stores the state after an answer, from which the next answer continues.
#include "tost/engine/arrays_file.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/serve/text_api.h"

namespace tost {
namespace {

using nlohmann::json;

constexpr char kResponseKey[] = "tost.response";  // of the answer, in the file of its state

class ResponseAnswer : public TextAnswer {
 public:
  ResponseAnswer(const Call& call, const ServedModel& model, bool stream)
      : TextAnswer(call, model, 1, {.stream = stream}) {}

  std::string id = "resp-none", previous;
  bool store = true;

 protected:
  void begin_stream() override {
    event("response.created", {{"response", object("in_progress")}});
    event("response.output_item.added", {{"output_index", 0},
                                         {"item",
                                          {{"type", "message"},
                                           {"id", "msg-0"},
                                           {"role", "assistant"},
                                           {"status", "in_progress"},
                                           {"content", json::array()}}}});
    event(
        "response.content_part.added",
        place({{"part", {{"type", "output_text"}, {"text", ""}, {"annotations", json::array()}}}}));
  }
  void stream_piece(size_t, const std::string& piece, const std::optional<TokenLogprob>&) override {
    event("response.output_text.delta", place({{"delta", piece}, {"logprobs", json::array()}}));
  }
  void stream_end(size_t) override {
    event("response.output_text.done",
          place({{"text", choices_[0].text}, {"logprobs", json::array()}}));
    event("response.content_part.done", place({{"part", part()}}));
    event("response.output_item.done", {{"output_index", 0}, {"item", message()}});
  }
  void finish_stream() override {
    if (choices_[0].end.reason != "failed") event("response.completed", {{"response", whole()}});
  }
  json whole() const override {
    const std::string reason = finish_reason(0);
    auto result = object(reason == "stop"     ? "completed"
                         : reason == "length" ? "incomplete"
                                              : "cancelled");
    if (reason == "length") result["incomplete_details"] = {{"reason", "max_output_tokens"}};
    result["output"] = json::array({message()});
    result["usage"] = usage("input_tokens", "output_tokens");
    return result;
  }
  std::map<std::string, std::string> notes() const override {
    return {{kResponseKey, json_text(whole())}};
  }

 private:
  json part() const {
    return {{"type", "output_text"}, {"text", choices_[0].text}, {"annotations", json::array()}};
  }
  json message() const {
    return {{"type", "message"},
            {"id", "msg-0"},
            {"role", "assistant"},
            {"status", "completed"},
            {"content", json::array({part()})}};
  }
  static json place(json fields) {
    fields.update({{"item_id", "msg-0"}, {"output_index", 0}, {"content_index", 0}});
    return fields;
  }
  void event(const char* name, json fields) {
    fields["type"] = name;
    fields["sequence_number"] = sequence_++;
    send(fields, name);
  }
  json object(const char* status) const {
    return {{"id", id},
            {"object", "response"},
            {"created_at", created_},
            {"status", status},
            {"model", model_.id},
            {"output", json::array()},
            {"error", json()},
            {"incomplete_details", json()},
            {"instructions", json()},
            {"metadata", json::object()},
            {"parallel_tool_calls", false},
            {"tools", json::array()},
            {"tool_choice", "none"},
            {"temperature", json()},
            {"top_p", json()},
            {"store", store},
            {"previous_response_id", previous.empty() ? json() : json(previous)}};
  }

  int64_t sequence_ = 0;
};

// The model's input: with a template, the conversation up to the beginning of the reply; without a
// template, the unchanged text.
std::string input_text(Fields& fields, const App& app) {
  const auto instructions = fields.text("instructions", {});
  const auto& input = fields.take("input");
  if (!app.config.chat) {
    if (!input.is_string() || !instructions.empty()) needed_template(app);
    return input.get<std::string>();
  }
  const auto& form = *app.config.chat;
  auto text = instructions.empty() ? std::string() : form.message("system", instructions);
  text += input.is_string() ? form.message("user", input.get<std::string>())
                            : conversation(input, form);
  return text + form.reply;
}

void respond(const Call& call) {
  App& app = call.app;
  Fields fields(call.request().body);
  const auto& model = app.language(fields.text("model", {}));
  const bool stream = fields.flag("stream", false), store = fields.flag("store", true);
  const auto previous = fields.text("previous_response_id", {});
  auto config = generate_config(fields, app, "max_output_tokens", 256);
  const auto text = input_text(fields, app);
  fields.neutral("tools", {json::array()});
  fields.neutral("tool_choice", {"none", "auto"});
  fields.neutral("background", {false});
  const auto& form = fields.take("text");
  if (form.is_object() && form.contains("format") && form["format"] != json{{"type", "text"}}) {
    throw ApiError(400, "'text.format' is not supported here but as {\"type\": \"text\"}.", "text");
  }
  for (const char* name : {"truncation", "parallel_tool_calls", "include", "reasoning",
                           "stream_options", "top_logprobs", "max_tool_calls"}) {
    fields.ignore(name);
  }
  fields.finish();
  if (app.config.chat) {
    config.stop.insert(config.stop.end(), app.config.chat->stop.begin(),
                       app.config.chat->stop.end());
  }
  const auto answer = std::make_shared<ResponseAnswer>(call, model, stream);
  answer->previous = previous;
  answer->store = store;
  std::vector<TextRequest> one(1);
  TextRequest& request = one[0];
  request.prompt = model.language->prompt(encode_text(model, text));
  request.config = config;
  if (!previous.empty()) {
    const auto bytes = app.sessions.read(previous, model.id);
    request.session = session_from(model, *bytes, cat("Response '", previous, "'"));
  }
  if (store) answer->id = answer->store_as("resp", request);
  answer->submit(std::move(one));
}

// Checks that a name is that of a stored response and not of a session.
const std::string& response_id(const Call& call) {
  if (!starts_with(call.argument, "resp-")) {
    throw ApiError(404, cat("There is no response ", shown(call.argument, 60), "."), "response_id");
  }
  return call.argument;
}

void show_response(const Call& call) {
  const auto& id = response_id(call);
  const auto bytes = std::make_shared<std::string>(*call.app.sessions.read(id));
  const auto notes = parse_arrays(bytes, cat("Response '", id, "'")).metadata;
  const auto found = notes.find(kResponseKey);
  if (found == notes.end()) throw ApiError(404, cat("Of '", id, "' the state alone is stored."));
  call.exchange->answer({.body = found->second});
}

void remove_response(const Call& call) {
  call.app.sessions.remove(response_id(call));
  call.answer({{"id", call.argument}, {"object", "response"}, {"deleted", true}});
}

}  // namespace

Routes response_routes() {
  return {{"POST", "/v1/responses", respond},
          {"GET", "/v1/responses/*", show_response},
          {"DELETE", "/v1/responses/*", remove_response}};
}

}  // namespace tost
