#include "tost/serve/fields.h"

#include <cmath>
#include <new>

#include "tost/base/text.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"

namespace tost {

using nlohmann::json;

HttpResponse error_response(const ApiError& error) {
  const char* type = error.status == 401   ? "authentication_error"
                     : error.status == 403 ? "permission_error"
                     : error.status == 429 ? "rate_limit_error"
                     : error.status >= 500 ? "server_error"
                                           : "invalid_request_error";
  const auto or_null = [](const std::string& s) { return s.empty() ? json() : json(s); };
  const json object{{"message", error.message},
                    {"type", type},
                    {"param", or_null(error.param)},
                    {"code", or_null(error.code)}};
  HttpResponse response{.status = error.status, .body = json_text(json{{"error", object}})};
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

ApiError current_error() {
  try {
    throw;
  } catch (const ApiError& error) {
    return error;
  } catch (const Error& error) {
    return {400, error.what()};
  } catch (const std::bad_alloc&) {
    return {503, "There is not enough memory for this request."};
  } catch (const std::exception& error) {
    return {500, cat("Internal error: ", error.what())};
  }
}

Fields::Fields(const std::string& body) {
  if (body.empty()) fail_request("The request has no body; a JSON object is expected.");
  body_ = parse_json(body, "The body", {.unique_keys = true, .error = ErrorKind::kUsage});
  if (!body_.is_object()) fail_request("The body is not a JSON object.");
}

void Fields::refuse(const std::string& name, const std::string& expected) const {
  const auto value = json_text(body_.at(name));
  throw ApiError(400,
                 cat("'", name, "' is ", value.size() <= 60 ? value : std::string("another value"),
                     "; ", expected, " is expected."),
                 name);
}

bool Fields::has(const std::string& name) const {
  const auto found = body_.find(name);
  return found != body_.end() && !found->is_null();
}

const json& Fields::take(const std::string& name) {
  static const json null;
  known_.insert(name);
  const auto found = body_.find(name);
  return found != body_.end() ? *found : null;
}

std::string Fields::text(const std::string& name, const std::string& otherwise) {
  const auto& value = take(name);
  if (value.is_null()) return otherwise;
  if (!value.is_string()) refuse(name, "a text");
  return value.get<std::string>();
}

std::string Fields::needed_text(const std::string& name) {
  if (!has(name)) throw ApiError(400, cat("'", name, "' is missing; a text is expected."), name);
  return text(name, {});
}

bool Fields::flag(const std::string& name, bool otherwise) {
  const auto& value = take(name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(name, "true or false");
  return value.get<bool>();
}

double Fields::number(const std::string& name, double otherwise, double low, double high) {
  const auto& value = take(name);
  if (value.is_null()) return otherwise;
  const double found = value.is_number() ? value.get<double>() : std::nan("");
  if (!(found >= low && found <= high)) refuse(name, cat("a number from ", low, " to ", high));
  return found;
}

int64_t Fields::count(const std::string& name, int64_t otherwise, int64_t low, int64_t high) {
  const auto& value = take(name);
  if (value.is_null()) return otherwise;
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t(INT64_MAX));
  const int64_t found = fits ? value.get<int64_t>() : 0;
  if (!fits || found < low || found > high) {
    refuse(name, cat("an integer from ", low, " to ", high));
  }
  return found;
}

std::vector<std::string> Fields::texts(const std::string& name) {
  const auto& value = take(name);
  if (value.is_null()) return {};
  if (value.is_string()) return {value.get<std::string>()};
  std::vector<std::string> list;
  if (!value.is_array()) refuse(name, "a text or a list of texts");
  for (const auto& item : value) {
    if (!item.is_string()) refuse(name, "a text or a list of texts");
    list.push_back(item.get<std::string>());
  }
  return list;
}

void Fields::neutral(const std::string& name, const std::vector<json>& values) {
  const auto& value = take(name);
  if (value.is_null()) return;
  for (const auto& allowed : values) {
    if (value == allowed) return;
  }
  throw ApiError(400, cat("'", name, "' is not supported here; leave it out."), name);
}

void Fields::finish() const {
  for (const auto& [name, value] : body_.items()) {
    if (known_.count(name) != 0) continue;
    throw ApiError(400,
                   cat("There is no field ", shown(name, 60), ".",
                       did_you_mean(name, {known_.begin(), known_.end()})),
                   escaped(name, 60), "unknown_parameter");
  }
}

constexpr char kContent[] = "{content}";

std::string ChatTemplate::message(const std::string& role, const std::string& content) const {
  const auto found = roles.find(role);
  if (found == roles.end()) {
    throw ApiError(400, cat("The chat template has no role ", shown(role, 60), "."), "messages");
  }
  std::string text = found->second;
  return text.replace(text.find(kContent), sizeof kContent - 1, content);
}

ChatTemplate chat_template_from(const std::string& text, const std::string& where) {
  const auto json = parse_json(text, where, {.unique_keys = true, .error = ErrorKind::kUsage});
  ChatTemplate result;
  if (!json.is_object()) fail_usage(where, " is not a JSON object.");
  for (const auto& [name, value] : json.items()) {
    if (name == "stop" && value.is_array()) {
      for (const auto& item : value) {
        if (!item.is_string()) fail_usage(where, " has a 'stop' that is not a list of texts.");
        result.stop.push_back(item.get<std::string>());
      }
    } else if (name == "reply" && value.is_string()) {
      result.reply = value.get<std::string>();
    } else {
      const auto form = value.is_string() ? value.get<std::string>() : std::string();
      const size_t at = form.find(kContent);
      if (at == std::string::npos || form.find(kContent, at + 1) != std::string::npos) {
        fail_usage(where, " has for ", shown(name, 60), " not a text with one ", kContent, ".");
      }
      result.roles[name] = form;
    }
  }
  if (result.roles.count("user") == 0) fail_usage(where, " has no form for the role 'user'.");
  return result;
}

}  // namespace tost
