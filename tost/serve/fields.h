// Reads JSON that clients and users write: fields of requests, and the forms of conversations;
// and the API's errors as OpenAI's error object.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tost/base/error.h"
#include "tost/serve/http.h"

namespace tost {

// Reads the fields of a request's body one by one, with checks, and refuses the fields that no call
// has read.
class Fields {
 public:
  // Throws an ApiError unless `body` is a JSON object.
  explicit Fields(const std::string& body);

  bool has(const std::string& name) const;  // and is not null
  // The value of a field; null if the field is absent.
  const nlohmann::json& take(const std::string& name);

  // The functions below read a field of one type, and throw an ApiError that names the field.
  std::string text(const std::string& name, const std::string& otherwise);
  std::string needed_text(const std::string& name);
  bool flag(const std::string& name, bool otherwise);
  double number(const std::string& name, double otherwise, double low, double high);
  int64_t count(const std::string& name, int64_t otherwise, int64_t low, int64_t high);
  // Reads a field that is a text or a list of texts.
  std::vector<std::string> texts(const std::string& name);

  // Checks an unsupported field: only `values`, which have no effect, are allowed.
  void neutral(const std::string& name, const std::vector<nlohmann::json>& values);
  void ignore(const std::string& name) { known_.insert(name); }
  // Throws an ApiError for a field that no call has read.
  void finish() const;

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;

  nlohmann::json body_;
  std::set<std::string> known_;
};

// Turns a conversation into a text, because a base model knows no roles:
// {"user": "User: {content}\n", "assistant": "Bot: {content}\n", "reply": "Bot:", "stop":
// ["\nUser:"]} and any other roles; "{content}" occurs once in each.
struct ChatTemplate {
  std::map<std::string, std::string> roles;
  std::string reply;              // the text that the model continues
  std::vector<std::string> stop;  // further strings that end a reply

  // A message in the form of its role. Throws an ApiError for a role that the template lacks.
  std::string message(const std::string& role, const std::string& content) const;
};

// Parses a template. Throws a usage Error naming `where`.
ChatTemplate chat_template_from(const std::string& text, const std::string& where);

class ApiError : public std::exception {
 public:
  ApiError(int status, std::string message, std::string param = {}, std::string code = {})
      : status(status),
        message(std::move(message)),
        param(std::move(param)),
        code(std::move(code)) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status;
  std::string message, param, code;
};

template <typename... Parts>
[[noreturn]] void fail_request(const Parts&... parts) {
  throw ApiError(400, cat(parts...));
}

// The answer {"error": {"message", "type", "param", "code"}}, with Retry-After for 429 and 503.
HttpResponse error_response(const ApiError& error);
// Converts the current exception: an Error blames the client, any other exception the server.
ApiError current_error();

}  // namespace tost
