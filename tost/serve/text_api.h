// Requests for texts: parses their fields, and turns the events of a model's thread into one answer
// or a stream of server-sent events.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tost/serve/app.h"
#include "tost/serve/fields.h"

namespace tost {

// The largest number of prompts in a request.
inline constexpr size_t kMaxPrompts = 64;

// Reads prompts: a text, a list of texts, token ids, or a list of lists of ids.
std::vector<std::vector<int32_t>> prompts_of(const nlohmann::json& value, const ServedModel& model,
                                             const std::string& field);

// Fields of a request that concern only the form of the answer.
struct AnswerForm {
  bool stream = false, include_usage = false, logprobs = false;
  size_t n = 1;  // texts of each prompt
};
AnswerForm answer_form(Fields& fields, const App& app);

// Reads the settings that all requests for texts share. `tokens` is the name of the field that
// limits new tokens.
GenerateConfig generate_config(Fields& fields, const App& app, const std::string& tokens,
                               int64_t otherwise);

std::vector<int32_t> encode_text(const ServedModel& model, const std::string& text);
const Tokenizer& tokenizer_of(const ServedModel& model);

// The chat template; throws an ApiError that names the flag if there is no template.
const ChatTemplate& needed_template(const App& app);
// Writes a list of {"role", "content"} as text. The role "developer" becomes "system" if the
// template lacks it; missing content is empty. Throws an ApiError for other values.
std::string conversation(const nlohmann::json& messages, const ChatTemplate& form);
// Reads a session from the bytes of its file. Throws a data Error beginning with `where`.
TextSession session_from(const ServedModel& model, const std::string& bytes,
                         const std::string& where);

// One request's texts.
class TextAnswer : public std::enable_shared_from_this<TextAnswer> {
 public:
  struct Choice {
    std::string text;
    std::vector<TokenLogprob> tokens;
    int64_t position = 0;  // of the session, at the current end of the text
    TextEnd end;
  };

  TextAnswer(const Call& call, const ServedModel& model, size_t choices, const AnswerForm& form);
  virtual ~TextAnswer() = default;

  // Makes the text continue session `id`; the session changes only if a token is written. Throws an
  // ApiError if the session is not at position `from` (-1: anywhere).
  void continue_session(const std::string& id, int64_t from, TextRequest& request);
  // Reserves room and a name of this kind for the state at the text's end; returns the name.
  std::string store_as(const std::string& kind, TextRequest& request);
  // Submits one text for each choice, or throws an ApiError. The answer lives as long as its texts.
  void submit(std::vector<TextRequest> requests);

 protected:
  virtual void begin_stream() {}
  virtual void stream_piece(size_t, const std::string&, const std::optional<TokenLogprob>&) {}
  virtual void stream_end(size_t) {}
  virtual void finish_stream() {}
  virtual nlohmann::json whole() const = 0;
  // Notes to store with the state at the text's end, as SessionFormat::bytes() describes.
  virtual std::map<std::string, std::string> notes() const { return {}; }

  void send(const nlohmann::json& event, const char* name = nullptr) const;
  nlohmann::json usage(const char* in, const char* out) const;
  const char* finish_reason(size_t i) const;  // stop, length, or abort: cut short by the server

  App& app_;
  const std::shared_ptr<Exchange> exchange_;
  const ServedModel& model_;
  const AnswerForm form_;
  const int64_t created_;
  std::vector<Choice> choices_;

 private:
  // Holds a session of the store, and returns it unchanged unless a text has continued it.
  struct Lease {
    SessionStore& store;
    std::string id;
    Lease(SessionStore& s, std::string name) : store(s), id(std::move(name)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      if (!id.empty()) store.give_back(id);
    }
  };

  bool unwritten(const Choice& choice) const;
  void piece(size_t i, const std::string& text, const std::optional<TokenLogprob>& token,
             int64_t position);
  void end(size_t i, TextEnd end);
  void store(const TextSession& session);
  void open_stream();

  std::unique_ptr<Lease> lease_;
  bool open_stream_ = false;
  size_t open_;
};

// Texts as OpenAI's "choices".
class ChoicesAnswer : public TextAnswer {
 public:
  using TextAnswer::TextAnswer;

 protected:
  virtual nlohmann::json content(const std::string& text, bool whole) const = 0;
  virtual nlohmann::json logprobs_of(const std::vector<TokenLogprob>& tokens) const = 0;
  virtual nlohmann::json object(const nlohmann::json& choices, bool whole) const = 0;
  nlohmann::json named(const char* prefix, const char* object,
                       const nlohmann::json& choices) const {
    return {{"id", prefix + exchange_->request.id},
            {"object", object},
            {"created", created_},
            {"model", model_.id},
            {"choices", choices}};
  }

  void stream_piece(size_t i, const std::string& piece,
                    const std::optional<TokenLogprob>& token) override;
  void stream_end(size_t i) override;
  void finish_stream() override;
  nlohmann::json whole() const override;
  void send_choice(size_t i, nlohmann::json content, const nlohmann::json& reason,
                   const nlohmann::json& logprobs) const;
};

}  // namespace tost
