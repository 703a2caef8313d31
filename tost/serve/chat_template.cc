#include "tost/serve/chat_template.h"

#include "tost/base/error.h"
#include "tost/io/parse_json.h"
#include "tost/io/safe_text.h"
#include "tost/serve/api_error.h"

namespace tost {
namespace {

constexpr char kContent[] = "{content}";

}  // namespace

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
