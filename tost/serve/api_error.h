// Errors of the server's API as OpenAI's error object.
#pragma once

#include <exception>
#include <string>

#include "tost/base/error.h"
#include "tost/serve/http.h"

namespace tost {

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
