// Requests for texts: what their fields mean, and the events of a model's thread turned into one
// answer or a stream of server-sent events.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tost/serve/app.h"
#include "tost/serve/fields.h"

namespace tost {

// The most prompts of a request.
inline constexpr size_t kMostPrompts = 64;

// `field`: a text, a list of texts, token ids, or a list of lists of them.
std::vector<std::vector<int64_t>> prompts_of(const nlohmann::json& value, const ServedModel& model,
                                             const std::string& field);

// Fields that do not concern a text but the answer.
struct AnswerForm {
  bool stream = false, include_usage = false;
  int64_t n = 1;
};
AnswerForm answer_form(Fields& fields, const App& app);

// The settings that all requests for texts share. `tokens`: the name of the field of the most new
// tokens, and what holds without it.
GenerateConfig generate_config(Fields& fields, const App& app, const std::string& tokens,
                               int64_t otherwise);

std::vector<int64_t> encode_text(const ServedModel& model, const std::string& text);
const Tokenizer& tokenizer_of(const ServedModel& model);

// The chat template, or an ApiError that says how to give one.
const ChatTemplate& needed_template(const App& app);
// A list of {"role", "content"} as text. Throws an ApiError for anything else.
std::string conversation(const nlohmann::json& messages, const ChatTemplate& form);
// A session from the bytes of its file. Throws a data Error beginning with `where`.
TextSession session_from(const ServedModel& model, const std::string& bytes,
                         const std::string& where);

// One request's texts.
class TextAnswer : public std::enable_shared_from_this<TextAnswer> {
 public:
  struct Choice {
    std::string text;
    std::vector<TokenLogprob> tokens;
    TextEnd end;
    bool ended = false;
  };

  TextAnswer(const Call& call, const ServedModel& model, size_t choices, bool stream);
  virtual ~TextAnswer() = default;

  // For choice `i`. The answer lives as long as they do.
  TextEvents events(size_t i);
  // Submits, or throws an ApiError.
  void submit(std::vector<TextRequest> requests);

  // Called with every end, before the answer is made; may store the session.
  std::function<void(TextEnd&)> on_end;

 protected:
  virtual void begin_stream() {}
  virtual void stream_piece(size_t i, const std::string& piece,
                            const std::optional<TokenLogprob>& token) = 0;
  virtual void stream_end(size_t i) = 0;
  virtual void finish_stream() = 0;
  virtual nlohmann::json whole() const = 0;

  void send(const nlohmann::json& event, const char* name = nullptr) const;
  nlohmann::json usage(const char* in, const char* out) const;
  const char* finish_reason(size_t i) const;

  const std::shared_ptr<Exchange> exchange_;
  const ServedModel& model_;
  const bool stream_;
  const int64_t created_;
  std::vector<Choice> choices_;

 private:
  void piece(size_t i, const std::string& text, const std::optional<TokenLogprob>& token);
  void end(size_t i, TextEnd end);

  size_t open_;
};

}  // namespace tost
